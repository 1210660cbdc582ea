"""surepick: find the best of many options from noisy, costly measurements, with a guarantee."""

from surepick._version import __version__ as __version__
from surepick.core.arms import FiniteArms as FiniteArms
from surepick.core.design import Design as Design
from surepick.core.design import characteristic_time as characteristic_time
from surepick.core.design import lower_bound as lower_bound
from surepick.core.design import optimal_design as optimal_design
from surepick.errors import ArmsDoNotSpan as ArmsDoNotSpan
from surepick.errors import InvalidInput as InvalidInput
from surepick.errors import NotCertified as NotCertified
from surepick.errors import NotEnoughData as NotEnoughData
from surepick.errors import SurepickError as SurepickError
from surepick.errors import TiedArms as TiedArms
