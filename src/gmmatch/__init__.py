"""Pick the rows worth training on from a dataset that is partly wrong."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import corrupt, errors, report
    from .data import register_format
    from .encoders import register_encoder
    from .facts import Facts
    from .location import geometric_median
    from .matching.features import label_aware
    from .opening import embed, open_source
    from .opening import open_data as open  # noqa: A004 - the name that users know
    from .pipeline import Plan, plan, select, suspects
    from .records import GeometricMedian, Selection, load_selection
    from .selectors import GMMatching, methods, register_method
    from .trust import Suspects

# Where each public name is: it is imported when it is first asked for, so that `import gmmatch` is quick.
_HOMES = {
    "GMMatching": "selectors",
    "Facts": "facts",
    "GeometricMedian": "records",
    "Plan": "planning",
    "Selection": "records",
    "Suspects": "trust",
    "embed": "opening",
    "geometric_median": "location",
    "label_aware": "matching.features",
    "load_selection": "records",
    "methods": "selectors",
    "open": "opening:open_data",
    "open_source": "opening",
    "plan": "pipeline",
    "register_encoder": "encoders",
    "register_format": "data",
    "register_method": "selectors",
    "select": "pipeline",
    "suspects": "pipeline",
}

__all__ = [
    "Facts", "GMMatching", "GeometricMedian", "Plan", "Selection", "Suspects", "__version__", "corrupt",
    "embed", "errors", "geometric_median", "label_aware", "load_selection", "methods", "open",
    "open_source", "plan", "register_encoder", "register_format", "register_method", "report", "select",
    "suspects",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        home, _, own_name = _HOMES[name].partition(":")
        found = getattr(import_module(f".{home}", __name__), own_name or name)
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        found = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
