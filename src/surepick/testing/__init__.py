"""Contracts for your own arm sets, algorithms, stopping rules and noise models. No test framework is needed."""

from surepick.testing.algorithms import check_algorithm as check_algorithm
from surepick.testing.algorithms import check_rule as check_rule
from surepick.testing.arm_sets import ArmSetContract as ArmSetContract
from surepick.testing.noise_models import check_noise_model as check_noise_model
