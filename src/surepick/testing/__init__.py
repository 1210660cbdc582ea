"""Contracts for your own classes: arm sets, algorithms and stopping rules. No test framework is needed."""

from surepick.testing.algorithms import check_algorithm as check_algorithm
from surepick.testing.algorithms import check_rule as check_rule
from surepick.testing.arm_sets import ArmSetContract as ArmSetContract
