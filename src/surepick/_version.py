"""The version of the package, written in this one place."""

__version__ = "0.1.0"
