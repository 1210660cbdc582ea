"""What tests of studies share."""

from tests.study.storages import place, shared

__all__ = ["place", "shared"]
