"""Pick the rows worth training on from a dataset that is partly wrong."""

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import corrupt, errors
    from .api import leaks, open, plan, select, suspects  # noqa: A004 - the name that users know
    from .compute.engine import Ray
    from .data import register_format
    from .encoders import register_encoder
    from .encoders.embed import embed
    from .exporting import export
    from .facts import RunInfo
    from .location import geometric_median
    from .matching.features import label_aware
    from .records import GeometricMedian, Selection, load_selection
    from .reporting import report
    from .run import Plan
    from .selectors import GMMatching, methods, register_method
    from .trust import Suspects

# Where each public name is: it is imported when it is first asked for, so that `import gmmatch` is quick.
_HOMES = {
    "GMMatching": "selectors",
    "GeometricMedian": "records",
    "Plan": "run",
    "Ray": "compute.engine",
    "RunInfo": "facts",
    "Selection": "records",
    "Suspects": "trust",
    "embed": "encoders.embed",
    "export": "exporting",
    "geometric_median": "location",
    "label_aware": "matching.features",
    "leaks": "api",
    "load_selection": "records",
    "methods": "selectors",
    "open": "api",
    "plan": "api",
    "register_encoder": "encoders",
    "register_format": "data",
    "register_method": "selectors",
    "report": "reporting",
    "select": "api",
    "suspects": "api",
}

# Names of 0.2, and where each is now; the former ones go with 0.4.
_FORMER = {
    "Facts": "RunInfo",
    "experiments": "lab.experiments",
    "pipeline": "api",
    "signals": "lab.signals",
    "training": "lab.training",
}

__all__ = [
    "GMMatching", "GeometricMedian", "Plan", "Ray", "RunInfo", "Selection", "Suspects", "__version__",
    "corrupt", "embed", "errors", "export", "geometric_median", "label_aware", "leaks", "load_selection",
    "methods", "open", "plan", "register_encoder", "register_format", "register_method", "report", "select",
    "suspects",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name in _FORMER:
        said = f"gmmatch.{name} is now gmmatch.{_FORMER[name]}; the former name goes with 0.4"
        warnings.warn(said, DeprecationWarning, stacklevel=2)
        return __getattr__(_FORMER[name])
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        found = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
