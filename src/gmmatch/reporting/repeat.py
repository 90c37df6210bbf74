"""The command and the Python call that repeat a selection."""

import shlex
from collections.abc import Mapping
from typing import Any

from ..records import Selection
from ..selectors import METHODS


def shell_command(selection: Selection, source: str, labelled: bool) -> str:
    """Return a command that makes the same selection.

    >>> import numpy as np, gmmatch
    >>> selection = gmmatch.select(np.eye(4), keep=2, random_state=7)
    >>> shell_command(selection, "my rows.npy", labelled=False)
    "gmmatch select 'my rows.npy' --keep 2 --seed 7"
    """
    words = ["gmmatch", "select", source, "--keep", str(len(selection))]
    if labelled:
        words += ["--labels", "LABELS"]
    if selection.method != "gm-matching":
        words += ["--method", selection.method]
    for name, value in _changed(selection).items():
        if name == "guard":
            words += ["--guard", str(value)]
        elif isinstance(value, (str, int, float)) and not str(value).startswith("array of shape"):
            words += ["--param", f"{name}={value}"]
        elif name == "scores":
            words += ["--scores", "SCORES.npy"]
    if selection.random_state is not None:
        words += ["--seed", str(selection.random_state)]
    return shlex.join(words)


def python_call(selection: Selection, labelled: bool, bad_rows: bool = False) -> str:
    """Return a call that makes the same selection of rows `X` with labels `y`.

    `bad_rows`: whether some rows take no part.

    >>> import numpy as np, gmmatch
    >>> python_call(gmmatch.select(np.eye(4), keep=2), labelled=True)
    'gmmatch.select(X, y, keep=2, random_state=0)'
    """
    data = ["X", *(["y"] if labelled else [])]
    words = [f"gmmatch.open({', '.join(data)}, on_bad_rows='drop')"] if bad_rows else data
    words.append(f"keep={len(selection)}")
    if selection.method != "gm-matching":
        words.append(f"method={selection.method!r}")
    for name, value in _changed(selection).items():
        simple = isinstance(value, (str, int, float, dict)) and not str(value).startswith("array of shape")
        words.append(f"{name}={value!r}" if simple else f"{name}={name}")
    words.append(f"random_state={selection.random_state}")
    return f"gmmatch.select({', '.join(words)})"


def _changed(selection: Selection) -> Mapping[str, Any]:
    """Return the parameters that are not the method's defaults."""
    method = METHODS.get(selection.method)
    if method is None:
        return {}
    defaults = method.selector.defaults()
    return {
        name: value
        for name, value in selection.params.items()
        if name not in ("keep", "random_state", *method.fixed)
        and not (isinstance(value, type(defaults.get(name))) and value == defaults.get(name))
    }
