"""Which C and gamma for a support vector machine? The logarithms do not describe the accuracy, and that is found out.

Run it: `python examples/svm_settings.py [folder]`; the report is written into the folder, else into a temporary one.

A measurement fits a machine to 100 of scikit-learn's handwritten digits and returns its accuracy on 100 others. The
features are a constant, log10 C and log10 gamma. Accuracy rises with gamma and then falls steeply, so no plane fits it,
and the answer of the plane, the largest C and gamma, is a poor one: check pulls withdraw it. Without a model the same
question has an answer.
"""

import itertools
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.svm import SVC

import surepick as sp

N_TRAIN, N_TEST = 100, 100

settings = np.array(list(itertools.product([0, 1, 2], [-4, -3, -2, -1, 0])))
names = [f"C=1e{c} gamma=1e{gamma}" for c, gamma in settings]
arms = sp.FiniteArms(pd.DataFrame(settings, index=names, columns=["log10 C", "log10 gamma"]))  # a constant is added
images, digits = load_digits(return_X_y=True)
images /= images.max()


def measure(row: int, rng: np.random.Generator) -> float:
    """Fit on a random sample and return the accuracy on another."""
    train, test = np.split(rng.permutation(len(digits))[: N_TRAIN + N_TEST], [N_TRAIN])
    c, gamma = 10.0 ** settings[row]
    machine = SVC(C=c, gamma=gamma).fit(images[train], digits[train])
    return float(machine.score(images[test], digits[test]))


def main(folder: Path, seed: int = 0) -> tuple[sp.Result, sp.Result]:
    """Ask with the features, whose answer is withdrawn, and without; write a report of each."""
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # explain() says the same
        linear = sp.identify(arms, lambda row: measure(row, rng), audit=4 * len(settings), seed=seed)
    print(linear.explain())
    linear.report(folder / "svm_linear.html", title="C and gamma: a plane over their logarithms")

    # Good settings scatter less than bad ones: the noise of each is learnt apart. A tenth may be lost.
    free = sp.identify(
        arms, lambda row: measure(row, rng), model="unstructured", noise="per-arm", epsilon=0.1, seed=seed
    )
    print(free.explain())
    free.report(folder / "svm_unstructured.html", title="C and gamma: every setting for itself")
    return linear, free


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    main(where)
    print(f"Reports: {where / 'svm_linear.html'}, {where / 'svm_unstructured.html'}")
