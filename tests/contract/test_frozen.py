"""The picks of every method on small cases are known: a change of picks is a decision, not an accident.

`python -m tests.contract.test_frozen` writes the picks of this version to `frozen.json`; CHANGELOG.md says
why they changed. The cases of the default, and what it doubts, are what `tools/check_figures.py` makes the
digest of that every page of results names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import gmmatch
from gmmatch.selectors import METHODS

FROZEN = Path(__file__).with_name("frozen.json")


def data() -> dict[str, dict[str, Any]]:
    """Return inputs: labelled with wrong labels and far rows, unlabelled, with a long tail; and real ones."""
    rng = np.random.default_rng(20)
    codes = np.repeat(np.arange(4), 60)
    blobs = np.round(rng.normal(size=(240, 6)) + 3.0 * rng.normal(size=(4, 6))[codes], 3)
    blobs[[3, 70, 130]] += 60.0
    noisy = codes.copy()
    noisy[::6] = (noisy[::6] + 1) % 4
    cloud = np.round(rng.normal(size=(150, 40)), 3).astype(np.float32)
    tail = np.repeat(np.arange(3), [150, 30, 6])
    tailed = np.round(rng.normal(size=(186, 8)) + 2.0 * tail[:, None], 3)
    digits, classes = load_digits(return_X_y=True)
    wrong = classes.copy()
    wrong[::5] = (wrong[::5] + 1 + np.arange(len(wrong))[::5] % 8) % 10
    wide = np.round(np.maximum(digits[:600] @ rng.normal(size=(64, 1_100)), 0.0), 3).astype(np.float32)
    many = np.tile(digits[:, ::3], (11, 1))
    many += np.round(rng.normal(size=many.shape), 3)
    return {
        "digits": {"data": digits, "labels": wrong, "keep": 60},
        "digits, unlabelled": {"data": digits, "labels": None, "keep": 60},
        "digits, wide": {"data": wide, "labels": wrong[:600], "keep": 40},
        "digits, batches": {"data": many, "labels": np.tile(wrong // 5, 11), "keep": 60},
        "labelled": {"data": blobs, "labels": noisy, "keep": 24},
        "unlabelled": {"data": cloud, "labels": None, "keep": 15},
        "tail": {"data": tailed, "labels": tail, "keep": 20},
    }


def cases() -> dict[str, dict[str, Any]]:
    """Return the parameters of every frozen case, by name."""
    found: dict[str, dict[str, Any]] = {}
    for name, method in METHODS.items():
        params: dict[str, Any] = {"method": name}
        for where in ("labelled", "unlabelled", "tail"):
            found[f"{name} {where}"] = params | {"where": where}
        found[f"{name} guarded"] = params | {"where": "labelled", "guard": "auto"}
        if "guard" in method.fixed:
            del found[f"{name} guarded"]
    variants: dict[str, dict[str, Any]] = {
        "guard off": {"guard": "off"},
        "batches": {"batch_size": 16},
        "batches, guard off": {"batch_size": 16, "guard": "off", "streams": 2},
        "projection": {"step": "projection"},
        "geometric median": {"center": "geometric-median"},
        "one class": {"by_class": False},
    }
    found["small-loss, out of fold"] = {"method": "small-loss", "where": "labelled", "scores": None}
    for where in ("digits", "digits, unlabelled", "digits, wide", "digits, batches"):
        found[f"gm-matching {where}"] = {"method": "gm-matching", "where": where}
    found["suspects digits"] = {"where": "digits"}
    for name, params in variants.items():
        for where in ("labelled", "unlabelled", "tail"):
            found[f"gm-matching, {name}, {where}"] = {"method": "gm-matching", "where": where, **params}
    return found


def picks(params: dict[str, Any]) -> list[int]:
    """Return the picks of a case, or its first suspects and the estimate of wrong labels in thousandths."""
    params = dict(params)
    given = data()[params.pop("where")]
    if "method" not in params:
        found = gmmatch.suspects(given["data"], given["labels"], random_state=3)
        share = found.summary()["wrong_labels"]
        return [
            *found.rows[:60].tolist(),
            *(round(1000 * x) for x in (share["estimate"], *share["interval"])),
        ]
    method = METHODS[params["method"]]
    rng = np.random.default_rng(5)
    n_rows = len(given["data"])
    if "scores" in method.parameters() and method.name != "stratified":
        params.setdefault("scores", np.round(rng.random(n_rows), 6))
    if method.name == "optimization":
        params["influence"] = np.round(rng.normal(size=(n_rows, 5)), 3)
    return gmmatch.select(**given, random_state=3, **params).indices.tolist()


@pytest.mark.parametrize("name", cases())
def test_picks_are_those_that_are_known(name: str) -> None:
    frozen = json.loads(FROZEN.read_text())
    assert picks(cases()[name]) == frozen[name]


def test_every_frozen_case_is_run() -> None:
    assert set(json.loads(FROZEN.read_text())) == set(cases())


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(picks(params))}" for name, params in cases().items()]
    FROZEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
