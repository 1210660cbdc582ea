"""Tests that every set of arms must pass, for authors of sets of their own."""

from surepick.testing.arm_sets import ArmSetContract as ArmSetContract
