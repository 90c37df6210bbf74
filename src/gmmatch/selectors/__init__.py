"""Methods that choose rows: one file each, one contract (`base`), one list (`registry`)."""

from .base import Selector
from .gm_matching import GMMatching
from .random import Random
from .registry import METHODS, find_method, methods

__all__ = ["METHODS", "GMMatching", "Random", "Selector", "find_method", "methods"]
