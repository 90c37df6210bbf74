"""The version, read by the build and recorded in every selection."""

__version__ = "0.3.0"
