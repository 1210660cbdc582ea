"""Designs with a certificate: solver, directions, and the proof that comes with every result."""

from surepick.core.design.certificate import Design as Design
from surepick.core.design.solve import optimal_design as optimal_design
from surepick.core.design.times import characteristic_time as characteristic_time
from surepick.core.design.times import lower_bound as lower_bound
