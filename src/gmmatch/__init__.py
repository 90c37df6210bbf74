"""Pick the rows worth training on from a dataset that is partly wrong."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import corrupt, errors
    from .encoders import register_encoder
    from .location import geometric_median
    from .matching.features import label_aware
    from .pipeline import select
    from .records import GeometricMedian, Selection, load_selection
    from .selectors import GMMatching, methods, register_method
    from .sources import open_source
    from .trust import Suspects, suspects

# Where each public name is: it is imported when it is first asked for, so that `import gmmatch` is quick.
_HOMES = {
    "GMMatching": "selectors",
    "GeometricMedian": "records",
    "Selection": "records",
    "Suspects": "trust",
    "geometric_median": "location",
    "label_aware": "matching.features",
    "load_selection": "records",
    "methods": "selectors",
    "open_source": "sources",
    "register_encoder": "encoders",
    "register_method": "selectors",
    "select": "pipeline",
    "suspects": "trust",
}

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
    "register_encoder",
    "register_method",
    "select",
    "suspects",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        found = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
