"""How rows are picked: methods of this package, of its first version, and the pipelines people use.

A method is written ``name`` or ``name:parameter=value,parameter=value``. Names of the package go to
`gmmatch.select`, with what follows as its parameters; the others are listed in `RIVALS`; ``first`` is the
default of the first version, whose sources must be given, and ``first:method=random,guard=auto`` another of
its methods.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import gmmatch

from ._sets import Labels, Rows, Scene

VERSION = "1"  # of the rivals; to be raised with any change that moves a figure
FIXED = ("random", "facility-location", "k-center")  # the package's plain methods, without parameters
_DECIDING = ("location", "trust", "matching", "selectors", "pipeline.py")
_OURS_INSIDE = ("cleanlab+gm-matching", "suspects")
_FOLDS = 5

Picks = npt.NDArray[np.int64]
Picker = Callable[[Scene, float, int], Picks]


def parse(method: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of a method."""
    name, _, text = method.partition(":")
    params: dict[str, Any] = {}
    for pair in text.split(",") if text else []:
        key, _, value = pair.partition("=")
        try:
            params[key.strip()] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            params[key.strip()] = value.strip()
    return name, params


def pick(method: str | Picker, scene: Scene, keep: float, seed: int, first: Path | None = None) -> Picks:
    """Return the rows that a method keeps, in its order."""
    if callable(method):
        return np.asarray(method(scene, keep, seed))
    name, params = parse(method)
    if name in RIVALS:
        return RIVALS[name](scene, keep, seed)
    if name == "first":
        if first is None:
            raise ValueError("the first version needs the folder of its sources (--first-version)")
        return _first_version(first).select(scene, keep, seed, params)
    found = gmmatch.select(
        scene.rows, keep=keep, labels=scene.labels, method=name, random_state=seed, **params
    )
    return np.asarray(found.indices)


def version(method: str, first: Path | None = None) -> str:
    """Return what stands for the code behind a method: cells of another version are measured again."""
    name, params = parse(method)
    if name == "first":
        return f"first {digest(_package(first), ('.',))}" if first else "first"
    if (name in RIVALS and name not in _OURS_INSIDE) or (name in FIXED and not params):
        return f"rival {VERSION}"
    return digest(Path(gmmatch.__file__).parent, _DECIDING)


def _package(checkout: Path) -> Path:
    return checkout / "src" / "gmmatch"


@lru_cache
def digest(package: Path, parts: tuple[str, ...]) -> str:
    """Return a digest of modules of a package."""
    found = hashlib.sha256()
    for name in parts:
        place = package / name
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            found.update(file.read_bytes())
    return found.hexdigest()[:10]


def out_of_fold(rows: Rows, labels: Labels) -> npt.NDArray[np.float64]:
    """Return class probabilities by logistic regressions that did not see the row."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold

    spread = rows.std(axis=0)
    scaled = (rows - rows.mean(axis=0)) / np.where(spread > 1e-3 * spread.max(), spread, spread.max())
    probabilities = np.zeros((len(rows), int(labels.max()) + 1))
    for train, held in KFold(_FOLDS, shuffle=True, random_state=0).split(rows):
        head = LogisticRegression(max_iter=100, tol=1e-3).fit(scaled[train], labels[train])
        probabilities[np.ix_(held, head.classes_)] = head.predict_proba(scaled[held])
    return probabilities


@lru_cache(maxsize=2)
def _probabilities(scene: Scene) -> npt.NDArray[np.float64]:
    """Return the out-of-fold probabilities of the scene, computed once while it is in use."""
    assert scene.labels is not None, "this rival needs labels"
    return out_of_fold(scene.rows, scene.labels)


@lru_cache(maxsize=2)
def _cleaned(scene: Scene) -> Picks:
    """Return the rows that cleanlab finds no issue with."""
    from cleanlab.filter import find_label_issues

    issues = find_label_issues(scene.labels, _probabilities(scene), n_jobs=1)
    return np.flatnonzero(~issues)


def _after_cleanlab(method: str, **params: Any) -> Picker:
    def picker(scene: Scene, keep: float, seed: int) -> Picks:
        assert scene.labels is not None, "this rival needs labels"
        clean, wanted = _cleaned(scene), round(keep * len(scene.rows)) if keep <= 1 else int(keep)
        if wanted >= len(clean):
            # More is asked than is clean: the rest in the order of their labels' probabilities.
            own = _probabilities(scene)[np.arange(len(scene.rows)), scene.labels]
            rest = np.setdiff1d(np.arange(len(scene.rows)), clean)
            return np.concatenate([clean, rest[np.argsort(-own[rest], kind="stable")]])[:wanted]
        labels = scene.labels[clean]
        found = gmmatch.select(
            scene.rows[clean], keep=wanted, labels=labels, method=method, random_state=seed, **params
        )
        return clean[found.indices]

    return picker


def small_loss(scene: Scene, keep: float, seed: int) -> Picks:
    """Return the rows with the smallest out-of-fold loss, the same share of each class."""
    assert scene.labels is not None, "this rival needs labels"
    own = _probabilities(scene)[np.arange(len(scene.rows)), scene.labels]
    order = np.argsort(-own, kind="stable")
    sizes = np.bincount(scene.labels)
    place = np.empty(len(order))
    for code in np.unique(scene.labels):
        members = order[scene.labels[order] == code]
        place[members] = (np.arange(len(members)) + 0.5) / sizes[code]
    wanted = round(keep * len(order)) if keep <= 1 else int(keep)
    return np.argsort(place, kind="stable")[:wanted]


def own_suspects(scene: Scene, keep: float, seed: int) -> Picks:
    """Return the least suspicious rows, by the package's own order of suspects."""
    found = gmmatch.suspects(scene.rows, scene.labels, random_state=seed)
    wanted = round(keep * len(scene.rows)) if keep <= 1 else int(keep)
    return np.asarray(found.rows)[::-1][:wanted]


RIVALS: dict[str, Picker] = {
    "cleanlab+random": _after_cleanlab("random"),
    "cleanlab+facility-location": _after_cleanlab("facility-location"),
    "cleanlab+gm-matching": _after_cleanlab("gm-matching", guard="off"),
    "small-loss": small_loss,
    "suspects": own_suspects,
}

# What the process of the first version does: a line of JSON, then rows and labels in; picks out.
_SERVE = """
import json, sys
import numpy as np
import gmmatch
inlet, outlet = sys.stdin.buffer, sys.stdout.buffer
for line in iter(inlet.readline, b""):
    asked = json.loads(line)
    shape, labelled = asked.pop("shape"), asked.pop("labelled")
    rows = np.frombuffer(inlet.read(4 * shape[0] * shape[1]), np.float32).reshape(shape)
    labels = np.frombuffer(inlet.read(8 * shape[0]), np.int64) if labelled else None
    picks = np.asarray(gmmatch.select(rows, labels=labels, **asked).indices, dtype=np.int64)
    outlet.write(json.dumps(len(picks)).encode() + b"\\n" + picks.tobytes())
    outlet.flush()
"""


class _FirstVersion:
    """A process that has imported the first version and answers requests."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(_package(folder).parent.resolve())},
        )

    def select(self, scene: Scene, keep: float, seed: int, params: dict[str, Any]) -> Picks:
        """Return its picks."""
        inlet, outlet = self.process.stdin, self.process.stdout
        assert inlet is not None, "the process was started with pipes"
        assert outlet is not None, "the process was started with pipes"
        facts = {"shape": scene.rows.shape, "labelled": scene.labels is not None}
        asked = {"keep": keep, "random_state": seed, **facts, **params}
        inlet.write(json.dumps(asked).encode() + b"\n" + scene.rows.astype(np.float32).tobytes())
        if scene.labels is not None:
            inlet.write(scene.labels.astype(np.int64).tobytes())
        inlet.flush()
        answer = outlet.readline()
        if not answer:
            raise RuntimeError("the process of the first version has ended; its error is printed above")
        return np.frombuffer(outlet.read(8 * json.loads(answer)), np.int64)


@lru_cache
def _first_version(folder: Path) -> _FirstVersion:
    """Return the process for a folder, started when it is first asked for."""
    return _FirstVersion(folder)
