"""Eight versions of a page, of whose visitors one in two hundred clicks: is a test worth it? No, and the plan says so.

Run it: `python examples/clicks.py [folder]`; the picture of the plan is written there, else into a temporary folder.

Nothing is measured. The rates are guesses of a kind that a shop can make: half a percent of the visitors click now, and
each of three changes is hoped to move that by a tenth or less.
"""

import itertools
import sys
import tempfile
from pathlib import Path

import numpy as np

import surepick as sp

CHANGES = ("headline", "picture", "button")

pages = np.array([[1.0, *changes] for changes in itertools.product([-1.0, 1.0], repeat=len(CHANGES))])
EFFECTS = np.array([0.005, 0.0003, 0.0002, 0.0001])  # the middle, and half of what each change does


def main(folder: Path) -> tuple[sp.Plan, sp.Plan]:
    """Plan for the effects that are hoped for, and for a redesign with five times the effect; draw the first."""
    hoped = sp.plan(pages, theta=EFFECTS, rewards="binary")
    print(hoped)
    print("Not worth it." if not hoped.is_possible else "Worth a try.")
    hoped.plot().savefig(folder / "clicks.png")

    bold = sp.plan(pages, theta=EFFECTS * [1.0, 5.0, 5.0, 5.0], rewards="binary")
    print(f"With changes that do five times as much: {bold}")
    return hoped, bold


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    main(where)
    print(f"Picture: {where / 'clicks.png'}")
