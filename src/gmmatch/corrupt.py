"""Make data wrong on purpose: the public name of `gmmatch.lab.corrupt`."""

from .lab.corrupt import *  # noqa: F403
from .lab.corrupt import __all__ as __all__
