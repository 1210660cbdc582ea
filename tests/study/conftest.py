"""What tests of studies share."""

from tests.study.places import place, shared

__all__ = ["place", "shared"]
