"""24 prompts on 400 questions, pass or fail: which prompt answers most of these questions?

Run it: `python examples/prompts.py [folder]`; the report is written there, else into a temporary folder.

The answers are simulated from a seed: a question has a hardness that all prompts share, and a prompt adds its own. A
model that answers at temperature 0 gives the same answer each time, so the scores are one fixed table of 24 x 400. To
ask all of it costs 9,600 calls. Prompts that are excluded on the way are asked no more questions.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import surepick as sp

STYLES = ("plain", "step by step", "as a teacher", "as a critic")
SHOTS = ("no example", "one example", "three examples")
ENDS = ("", ", short")
PROMPTS = [f"{style}, {shots}{end}" for style in STYLES for shots in SHOTS for end in ENDS]
N_QUESTIONS = 400

rng = np.random.default_rng(7)
skill = rng.normal(0.5, 0.25, len(PROMPTS))
skill[9] = 1.15  # step by step, one example, short
hardness = rng.standard_normal(N_QUESTIONS)
is_right = skill[:, None] - hardness + 0.6 * rng.standard_normal((len(PROMPTS), N_QUESTIONS)) > 0.0


def grade(*call: int) -> bool:
    """Stand in for a call of the model with a prompt and a question, and for a check of its answer."""
    prompt, question = call
    return bool(is_right[prompt, question])


def main(folder: Path) -> sp.Result:
    """Find the best prompt on the questions, and write the report."""
    prompts = sp.FiniteArms(np.eye(len(PROMPTS)), names=PROMPTS)
    result = sp.identify(prompts, grade, pool=N_QUESTIONS, rewards="binary")
    print(result.explain())
    whole = is_right.size
    print(f"{result.n_pulls:,} calls, where the whole table takes {whole:,}.")
    result.report(folder / "prompts.html", title="Which of 24 prompts answers most of 400 questions?")
    return result


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    main(where)
    print(f"Report: {where / 'prompts.html'}")
