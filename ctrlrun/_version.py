"""The version, where build and program both find it."""

__version__ = "0.7.0"
