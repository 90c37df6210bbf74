"""Pick the rows worth training on from a dataset that is partly wrong."""

from . import corrupt, errors
from .location import geometric_median
from .matching.features import label_aware
from .pipeline import select
from .records import GeometricMedian, Selection, load_selection
from .selectors import GMMatching, methods
from .sources import open_source
from .trust import Suspects, suspects
from .version import __version__

__all__ = [
    "GMMatching",
    "GeometricMedian",
    "Selection",
    "Suspects",
    "__version__",
    "corrupt",
    "errors",
    "geometric_median",
    "label_aware",
    "load_selection",
    "methods",
    "open_source",
    "select",
    "suspects",
]
