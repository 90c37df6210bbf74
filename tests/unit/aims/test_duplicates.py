"""Near-duplicates: among the rows, and of held-out rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app
from gmmatch.errors import InvalidInput, InvalidParameter
from tests.unit.aims.blobs import blobs

ROWS, LABELS = blobs()


def test_of_near_duplicates_one_may_be_picked() -> None:
    rows, labels = ROWS.copy(), LABELS.copy()
    rows[40:60] = rows[0:20] + 1e-3  # near copies, of the same classes
    rows[80:90] = rows[0:10]  # and equal ones
    labels[80] = 3  # of which one is labelled otherwise
    found = gmmatch.select(rows, labels, keep=1.0, duplicates="drop")
    groups = [np.r_[row, row + 40, *([row + 80] if row < 10 else [])] for row in range(20)]
    kept = found.mask()
    assert [int(kept[group].sum()) for group in groups] == [1] * 20
    assert len(found) == len(rows) - 30
    assert not kept[80]
    assert found.info.aims is not None
    assert found.info.aims["duplicates"]["dropped"] == 30
    assert "30 near-duplicates" in str(found.info.hint)
    # Which row stands for which.
    pairs = dict(found.info.aims["duplicates"]["pairs"])
    assert sorted(pairs) == np.flatnonzero(~kept).tolist()
    assert all(
        kept[own] and any(row in group and own in group for group in groups) for row, own in pairs.items()
    )
    # The list of suspects names the same rows.
    suspects = gmmatch.suspects(rows, labels)
    assert set(suspects.keep[suspects.group >= 0]) == {row for group in groups for row in group if kept[row]}


def test_an_included_row_stands_for_its_duplicates() -> None:
    rows = ROWS.copy()
    rows[40:60] = rows[0:20]
    found = gmmatch.select(rows, LABELS, keep=1.0, duplicates="drop", include=[45])
    assert found.indices[0] == 45
    assert 5 not in found.indices
    assert found.info.aims is not None
    assert [5, 45] in found.info.aims["duplicates"]["pairs"]


def test_duplicates_are_dropped_without_labels_and_without_a_guard() -> None:
    rows = ROWS.copy()
    rows[40:60] = rows[0:20]
    for options in ({"guard": "off"}, {}):
        assert len(gmmatch.select(rows, keep=1.0, duplicates="drop", **options)) == len(rows) - 20
    with pytest.raises(InvalidParameter, match="duplicates must be 'allow' or 'drop'"):
        gmmatch.select(rows, duplicates="merge")


def test_planted_copies_of_held_out_rows_are_found() -> None:
    rng = np.random.default_rng(3)
    test, _ = blobs(1000, 32, seed=5)
    train, labels = blobs(4000, 32, seed=6)
    planted = rng.choice(len(train), 500, replace=False)
    source = rng.choice(len(test), 500, replace=False)
    step = rng.normal(size=(500, 32))
    train[planted] = test[source] + 0.2 * step / np.linalg.norm(step, axis=1, keepdims=True)
    found = gmmatch.leaks(train, test)
    hit = np.isin(planted, found.train)
    assert hit.mean() >= 0.95
    assert np.isin(found.train, planted).mean() >= 0.95
    # Each with the row that it is a copy of, at its exact distance.
    partner = dict(zip(planted.tolist(), source.tolist(), strict=True))
    assert all(
        partner[row] == other for row, other in zip(found.train.tolist(), found.test.tolist(), strict=True)
    )
    assert np.allclose(
        found.distance, np.linalg.norm(train[found.train] - test[found.test], axis=1), atol=1e-4
    )
    assert found.distance.max() <= found.reach
    picked = gmmatch.select(train, labels, keep=1.0, holdout=test)
    assert not np.intersect1d(picked.indices, found.train).size
    assert len(picked) == len(train) - len(found)
    assert picked.info.leaks is not None
    assert picked.info.leaks["rows"] == len(found)


def test_pairs_are_listed_and_written(tmp_path: Path) -> None:
    test = ROWS[[3, 250]] + np.float32(1e-5)
    found = gmmatch.leaks(ROWS, gmmatch.open(test))
    assert repr(found) == "Leaks(2 rows are near-duplicates of 2 rows of the other)"
    assert found.to_pandas().columns.tolist() == ["train", "test", "distance"]
    found.save(tmp_path / "leaks.csv")
    assert (tmp_path / "leaks.csv").read_text().splitlines()[1].startswith("3,0,")
    np.save(tmp_path / "train.npy", ROWS)
    np.save(tmp_path / "test.npy", test)
    names = [str(tmp_path / name) for name in ("train.npy", "test.npy")]
    ran = CliRunner().invoke(app, ["leaks", *names, "--json", "-o", str(tmp_path / "pairs.jsonl")])
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout.strip().splitlines()[-1])
    assert told["pairs"] == [[3, 0], [250, 1]] or told["pairs"] == [[250, 1], [3, 0]]
    assert (tmp_path / "pairs.jsonl").is_file()
    with pytest.raises(InvalidInput, match="has rows of 5 numbers, and the data has rows of 12"):
        gmmatch.select(ROWS, holdout=np.zeros((3, 5)))
