"""Rounds: the fixed design that a set of vectors brings along, whole rounds at a time.

    sampling        the rounds of the set's design (basis vectors, a Hadamard matrix, ...), or on the unit sphere the
                    tangent design at the estimate
    stopping        evidence by default, after whole rounds; others by name
    recommendation  the best arm of the set at the estimate

What "lazy-track-and-stop" is on a set of vectors; for the sphere it is section 4 of Jedra and Proutiere (2020), whose
printed rule decides in the paper variant.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, final

from surepick.algorithms.options import Options
from surepick.arms.view import Task
from surepick.errors import InvalidInput
from surepick.sampling.fixed import RoundSampler
from surepick.sampling.protocol import Sampler
from surepick.sampling.tangent import TangentSampler
from surepick.stopping.protocol import Rule
from surepick.stopping.vector_sets import PrintedSphere

RoundsDesign = Literal["rounds", "tangent"]


@final
@dataclass(frozen=True, kw_only=True)
class Rounds(Options):
    """Options of the algorithm, beside `variant` and `stopping`.

    Args:
        design: "rounds", or on the unit sphere "tangent".
    """

    design: RoundsDesign = "rounds"

    takes_vectors: ClassVar[bool] = True

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampling rule and the stopping rule."""
        rule = self.rule("paper" if self.is_paper and PrintedSphere.suits(task) else "evidence")
        if self.design == "tangent" and not TangentSampler.suits(task):
            raise InvalidInput(
                f'`design` must be "rounds", or "tangent" on a sphere, got {self.design!r} on {task.arms.description}.'
            )
        return RoundSampler(task.vectors) if self.design == "rounds" else TangentSampler(task), rule
