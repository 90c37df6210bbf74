"""The public names, their parameters and defaults, the columns and keys of what is written, the exit codes.

A change here is a decision: users and their scripts rely on every line.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import gmmatch
from gmmatch import corrupt, errors
from tests.contract.test_selectors import CASES

NAMES = {
    "GMMatching", "GeometricMedian", "Plan", "Ray", "RunInfo", "Selection", "Suspects", "__version__",
    "corrupt", "embed", "errors", "export", "geometric_median", "label_aware", "leaks", "load_selection",
    "methods", "open", "plan", "register_encoder", "register_format", "register_method", "report", "select",
    "suspects",
}  # fmt: skip

REQUIRED = inspect.Parameter.empty

# By position, in this order.
POSITIONAL: dict[str, dict[str, Any]] = {
    "geometric_median": {
        "X": REQUIRED, "epsilon": 1e-6, "weights": None, "sample": None, "random_state": 0, "max_iter": 1000,
    },
    "select": {"data": REQUIRED, "labels": None},
    "open": {"data": REQUIRED, "labels": None},
    "label_aware": {"X": REQUIRED, "y": REQUIRED, "weight": 2.0, "folds": None, "random_state": 0},
    "suspects": {"data": REQUIRED, "labels": None},
    "plan": {"data": REQUIRED, "labels": None},
    "leaks": {"train": REQUIRED, "test": REQUIRED},
    "embed": {"data": REQUIRED, "encoder": None},
    "load_selection": {"path": REQUIRED},
    "methods": {},
}  # fmt: skip

# By name alone.
SELECT = {
    "keep": 0.1, "method": "gm-matching", "guard": "auto", "budgets": "proportional", "task": "auto",
    "reference": None, "probabilities": None, "fix": None, "match_to": None, "include": None,
    "exclude": None, "holdout": None, "duplicates": "allow", "cost": None, "strata": None, "quality": None,
    "random_state": 0, "memory": None, "engine": "local", "state": None,
}  # fmt: skip
KEYWORDS: dict[str, dict[str, Any]] = {
    "select": SELECT,
    "plan": SELECT,
    "open": {
        "ids": None, "groups": None, "encoder": None, "text": None, "image": None, "embedding": None,
        "on_bad_rows": "error", "unlabelled": "error", "header": "auto",
    },
    "suspects": {
        "reference": None, "probabilities": None, "random_state": 0, "memory": None, "engine": "local",
    },
}  # fmt: skip

CORRUPT: dict[str, dict[str, Any]] = {
    "corrupt_images": {"images": REQUIRED, "share": 0.2, "kinds": None, "severity": 3, "rng": 0},
    "corrupt_labels": {"labels": REQUIRED, "share": 0.2, "kind": "symmetric", "rng": 0},
    "contaminate": {"X": REQUIRED, "share": 0.2, "kind": "far-cluster", "rng": 0},
    "attack": {
        "model": REQUIRED, "images": REQUIRED, "labels": REQUIRED, "kind": "pgd", "eps": 8 / 255,
        "step": 2 / 255, "steps": 10, "rng": 0,
    },
}  # fmt: skip

ESTIMATOR = {
    "keep": 0.1, "center": "auto", "by_class": True, "budgets": "proportional", "guard": "auto",
    "random_state": 0, "step": "teaching", "start": None, "normalize": "none", "batch_size": "auto",
    "streams": "auto", "fourier_features": "auto", "clusters": "auto", "sample": None, "refine": None,
    "strategy": "auto", "learner": "any",
}  # fmt: skip

SELECTION = {
    "indices", "scores", "distances", "objective", "method", "params", "n_rows", "random_state", "labels",
    "ids", "epsilon", "tiers", "centers", "evidence", "info", "facts", "made", "versions", "fingerprint",
    "mask", "head", "apply", "sampler", "save", "load", "to_arrow",
    "given_labels", "weights", "report", "materialize",
    "suspects", "settings", "to_pandas", "included", "carried", "show", "plot", "to_label",
}  # fmt: skip

COLUMNS = ["id", "row", "label", "rank", "score", "distance", "tier", "weight"]

JSON_KEYS = {
    "rows", "kept", "classes", "method", "objective", "epsilon", "center", "reads", "batches", "chains",
    "tiers", "guard", "bad_rows", "training", "engine", "seconds", "versions", "fingerprint", "hint",
    "output", "report", "suspects", "materialized", "strategy", "leaks", "aims", "settings",
}  # fmt: skip

EXIT_CODES = {
    "GmmatchError": 1, "InvalidInput": 3, "InvalidInputType": 3, "InvalidParameter": 2,
    "UnknownParameter": 2, "WorkerFailed": 3, "MissingExtra": 4,
}  # fmt: skip

COMMANDS = {
    "select", "report", "suspects", "leaks", "export", "embed", "train", "corrupt", "cache", "demo",
    "methods",
    "compare", "reproduce",
}  # fmt: skip


def defaults(function: Any, *kinds: Any) -> dict[str, Any]:
    """Return the parameters of some kinds, with their defaults."""
    found = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in found if each.kind in kinds}


def test_the_public_names() -> None:
    assert set(gmmatch.__all__) == NAMES
    assert all(hasattr(gmmatch, name) for name in NAMES)
    assert set(gmmatch.methods()) == set(CASES)  # of the contract suite


@pytest.mark.parametrize("name", POSITIONAL)
def test_parameters_by_position(name: str) -> None:
    found = defaults(getattr(gmmatch, name), inspect.Parameter.POSITIONAL_OR_KEYWORD)
    assert list(found.items()) == list(POSITIONAL[name].items())


@pytest.mark.parametrize("name", KEYWORDS)
def test_parameters_by_name(name: str) -> None:
    assert defaults(getattr(gmmatch, name), inspect.Parameter.KEYWORD_ONLY) == KEYWORDS[name]


@pytest.mark.parametrize("name", CORRUPT)
def test_parameters_of_the_corruptions(name: str) -> None:
    found = defaults(getattr(corrupt, name), inspect.Parameter.POSITIONAL_OR_KEYWORD)
    assert list(found.items()) == list(CORRUPT[name].items())


def test_the_corruptions_return_what_they_changed_and_a_mask() -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (20, 8, 8), dtype=np.uint8), np.arange(20) % 4
    found = {
        "images": corrupt.corrupt_images(images),
        "labels": corrupt.corrupt_labels(labels),
        "rows": corrupt.contaminate(rng.normal(size=(20, 3))),
    }
    for changed, mask in found.values():
        assert (len(changed), mask.dtype, mask.sum()) == (20, bool, 4)


def test_the_estimator() -> None:
    assert gmmatch.GMMatching().get_params() == ESTIMATOR
    rows, labels = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    estimator = gmmatch.GMMatching(
        keep=0.1, step="residual", center="auto", batch_size="auto", by_class=True, budgets="proportional",
        random_state=0,
    ).fit(rows, labels)  # fmt: skip
    assert (estimator.sample_indices_.shape, estimator.scores_.shape) == ((6,), (6,))
    assert len(estimator.centers_) == 2
    kept_rows, kept_labels = estimator.fit_resample(rows, labels)
    assert (kept_rows == rows[estimator.sample_indices_]).all()
    assert (kept_labels == labels[estimator.sample_indices_]).all()


def test_a_selection() -> None:
    rows, labels = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    selection = gmmatch.select(rows, keep="10%", labels=labels)
    assert {name for name in dir(selection) if not name.startswith("_")} == SELECTION
    assert (len(selection), selection.n_rows, selection.method) == (6, 60, "gm-matching")
    assert selection.tiers is not None
    assert selection.tiers.shape == (60,)
    assert len(selection.head(3)) == selection.head(3).info.kept == 3
    assert set(selection.info.as_dict()) == JSON_KEYS
    for keep in (0.1, 6):
        assert gmmatch.select(rows, keep=keep, labels=labels).indices.tolist() == selection.indices.tolist()


def test_a_selection_file_of_version_0_2_opens() -> None:
    selection = gmmatch.load_selection(Path(__file__).with_name("selection-0.2.parquet"))
    assert (selection.indices.tolist(), selection.n_rows) == ([40, 8, 46, 24, 57, 16], 60)
    assert selection.ids is not None
    assert selection.ids[0] == "row-40"
    assert selection.tiers is not None
    assert selection.tiers[7] == 2
    assert selection.evidence is not None
    assert (selection.method, selection.info.reads, selection.info.kept) == ("gm-matching", 9, 6)


def test_suspects_have_a_table_and_a_summary() -> None:
    rows, labels = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    found = gmmatch.suspects(rows, labels)
    assert len(found.to_pandas()) == found.summary()["rows"] == 60


def test_a_median() -> None:
    found = gmmatch.geometric_median(np.eye(4))
    assert {"point", "objective", "epsilon", "n_iter", "converged"} <= set(vars(found))


@pytest.mark.parametrize("name", ["experiments", "signals", "training"])
def test_packages_that_moved_warn_and_work(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"now gmmatch\.lab\.{name}"):
        assert getattr(gmmatch, name) is import_module(f"gmmatch.lab.{name}")


def test_the_corruptions_are_those_of_the_laboratory() -> None:
    found = import_module("gmmatch.corrupt")
    assert corrupt is found
    assert all(
        getattr(found, name) is getattr(import_module("gmmatch.lab.corrupt"), name) for name in found.__all__
    )


def test_the_core_finds_the_methods_of_the_laboratory_without_importing_it() -> None:
    code = (
        "import sys, gmmatch, gmmatch.run, gmmatch.cli.select, gmmatch.encoders, gmmatch.reporting\n"
        "print([name for name in sys.modules if name.startswith('gmmatch.lab')], 'el2n' in gmmatch.methods())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] True\n"


def test_the_version_is_told_once() -> None:
    root = Path(__file__).parents[2]
    newest = re.search(r"^## (\S+) \((\d\S+)\)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = (root / "CITATION.cff").read_text()
    assert newest is not None
    assert newest[1] == gmmatch.__version__
    assert f"\nversion: {newest[1]}\ndate-released: {newest[2]}\n" in cited


def test_exit_codes_of_the_errors() -> None:
    found = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.GmmatchError)
    }
    assert {name: kind.exit_code for name, kind in found.items()} == EXIT_CODES


def run(*words: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [sys.executable, "-m", "gmmatch", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done


def test_the_commands() -> None:
    from gmmatch.cli.commands import COMMANDS as KNOWN

    assert set(KNOWN) == COMMANDS


def test_what_the_command_line_writes_and_prints(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(60, 4)))
    np.save(tmp_path / "labels.npy", np.arange(60) % 2)
    shared = ["select", tmp_path / "rows.npy", "--labels", tmp_path / "labels.npy", "--keep", "10%"]
    told = json.loads(run(*shared, "-o", tmp_path / "kept.parquet", "--json").stdout)
    assert set(told) == JSON_KEYS
    assert (told["rows"], told["kept"], told["classes"]) == (60, 6, 2)
    assert pq.read_table(tmp_path / "kept.parquet").column_names == COLUMNS
    said = run(
        *shared, "-o", tmp_path / "all.parquet", "--all-rows", "--suspects", tmp_path / "wrong.csv"
    ).stdout
    assert "all.parquet" in said
    assert "wrong.csv" in said
    assert pq.read_table(tmp_path / "all.parquet").column_names == [*COLUMNS, "kept"]


def test_exit_codes_of_the_command_line(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.full((6, 2), np.nan))
    out = tmp_path / "kept.parquet"
    run("select", tmp_path / "rows.npy", "--keep", "ten", "-o", out, status=2)
    bad = run("select", tmp_path / "rows.npy", "--keep", "50%", "-o", out, status=3)
    assert bad.stderr.startswith("gmmatch: ")
    assert "Traceback" not in bad.stderr
    assert not out.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_standard_output_is_one_sentence_and_the_selection_stays(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.eye(20))
    words = ["select", tmp_path / "rows.npy", "--keep", "2", "-o", tmp_path / "kept.parquet", "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gmmatch", *map(str, words)],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, "gmmatch: cannot write: No space left on device\n")
    assert len(gmmatch.load_selection(tmp_path / "kept.parquet")) == 2
