"""The command and the Python call that repeat a selection."""

import os
import shlex
from collections.abc import Mapping
from typing import Any

from ..records import Selection
from ..selectors import METHODS

# Parameters of methods that the command line has options of their own for; the others go by --param.
_OPTIONS = {"keep", "method", "guard", "budgets"}


def shell_command(selection: Selection, source: str, opening: Mapping[str, Any]) -> str:
    """Return a command that makes the same selection; files that nobody named stand there in capitals.

    `opening`: how the input was opened, by option; None: not asked for.

    >>> import numpy as np, gmmatch
    >>> selection = gmmatch.select(np.eye(4), keep=2, random_state=7)
    >>> shell_command(selection, "my rows.npy", {"labels": "kinds.npy", "ids": None})
    "gmmatch select 'my rows.npy' --labels kinds.npy --keep 2 --seed 7"
    """
    words = ["gmmatch", "select", source]
    for name, value in opening.items():
        path = os.fspath(value) if isinstance(value, str | os.PathLike) else name.upper()
        words += [] if value is None else [f"--{name}", path]
    params = _changed(selection)
    for name, value in _asked(selection).items():
        if value is None or isinstance(value, Mapping):
            words += [f"--{name.replace('_', '-')}", name.upper()]
        elif name in params and name not in _OPTIONS:
            words += ["--param", f"{name}={value}"]
        else:
            words += [f"--{name}", str(value)]
    if selection.random_state is not None:
        words += ["--seed", str(selection.random_state)]
    return shlex.join(words)


def python_call(
    selection: Selection,
    labelled: bool,
    bad_rows: bool = False,
    opened: tuple[str, Mapping[str, object]] | None = None,
) -> str:
    """Return a call that makes the same selection: of rows `X` with labels `y`, or of the files named.

    What belonged to the rows of one dataset (a reference, a holdout) is a variable of that name. `bad_rows`:
    whether some rows take no part. `opened`: the path of the rows and how they were opened, by parameter.

    >>> import numpy as np, gmmatch
    >>> python_call(gmmatch.select(np.eye(4), keep=2), labelled=True)
    'gmmatch.select(X, y, keep=2, random_state=0)'
    >>> python_call(gmmatch.select(np.eye(4), keep=2), True, opened=("a.csv", {"labels": "kind"}))
    "gmmatch.select('a.csv', labels='kind', keep=2, random_state=0)"
    """
    data = ["X", *(["y"] if labelled else [])]
    words = [f"gmmatch.open({', '.join(data)}, on_bad_rows='drop')"] if bad_rows else data
    if opened is not None:
        path, asked = opened
        asked = {**asked, **({"on_bad_rows": "drop"} if bad_rows else {})}
        words = [repr(path), *(f"{name}={value!r}" for name, value in asked.items())]
    words += [f"{name}={name if value is None else repr(value)}" for name, value in _asked(selection).items()]
    return f"gmmatch.select({', '.join(words)}, random_state={selection.random_state})"


def opened_as(source: object, asked: Mapping[str, object]) -> tuple[str, dict[str, str]] | None:
    """Return the path of rows and how they were opened, by parameter; None: some of it was no path or text.

    `asked`: what was asked for; None: not asked for.
    """
    named = {name: os.fspath(own) for name, own in asked.items() if isinstance(own, str | os.PathLike)}
    whole = len(named) == sum(value is not None for value in asked.values())
    return (os.fspath(source), named) if whole and isinstance(source, str | os.PathLike) else None


def _asked(selection: Selection) -> dict[str, Any]:
    """Return what was asked for, by parameter; None for what only the caller has, such as arrays."""
    info, settings = selection.info, dict(selection.info.settings or {})
    aims = dict.fromkeys(info.aims or ())
    if info.leaks is not None:
        aims["holdout"] = None
    labels = info.guard.get("labels") or {}
    if "reference" in labels.get("losses", ()):
        aims["reference"] = None
    if labels.get("classifier") == "given":
        aims["probabilities"] = None
    keep = settings.pop("keep", len(selection))
    method = {} if selection.method == "gm-matching" else {"method": selection.method}
    # A budget in another unit, or beyond rows that are in, is repeated as it was asked for.
    keep = keep if {"cost", "include"} & set(aims) else len(selection)
    return {"keep": keep, **method, **_changed(selection), **aims, **settings}


def _changed(selection: Selection) -> dict[str, Any]:
    """Return the parameters that are not the method's defaults; None for arrays, which nothing holds."""
    method = METHODS.get(selection.method)
    if method is None:
        return {}
    defaults = method.selector.defaults()
    return {
        name: value
        if isinstance(value, str | int | float | dict) and "array of shape" not in str(value)
        else None
        for name, value in selection.params.items()
        if name not in ("keep", "random_state", *method.fixed)
        and not (isinstance(value, type(defaults.get(name))) and value == defaults.get(name))
    }
