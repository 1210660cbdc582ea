"""Tests that every set of arms must pass, for authors of sets of their own."""

from surepick.testing.armset import ArmSetContract as ArmSetContract
