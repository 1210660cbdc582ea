"""The version of the package, written in this one place."""

__version__ = "0.2.0"
