"""Rows without a label beside labelled ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app
from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.matching.budgets import Weights, sequence
from tests.unit.aims.blobs import blobs

ROWS, CODES = blobs(600)
NAMES = np.array(["ant", "bee", "cat", "dog"], object)
LABELS = NAMES[CODES]
LABELS[400:] = None  # a third of the rows have none


def pick(keep: Any = 90, rows: Any = ROWS, labels: Any = LABELS, **options: Any) -> gmmatch.Selection:
    return gmmatch.select(gmmatch.open(rows, labels, unlabelled="pick"), keep=keep, **options)


@pytest.fixture(scope="module")
def found() -> gmmatch.Selection:
    return pick()


def test_both_kinds_have_their_share_and_come_in_turn(found: gmmatch.Selection) -> None:
    unlabelled = found.indices >= 400
    assert len(np.unique(found.indices)) == len(found) == 90
    assert unlabelled.sum() == 30
    assert (found.to_label == found.indices[unlabelled]).all()
    assert (sequence(Weights(np.array([400, 200])), np.array([[60, 30]]))[0] == unlabelled).all()
    assert found.info.aims is not None
    assert found.info.aims["unlabelled"] == {"rows": 200, "picked": 30, "label": "unlabelled"}
    assert "30 of 200 rows without a label were picked, and are to be labelled" in str(found.info.hint)
    assert found.weights.mean() == pytest.approx(1)
    # The picks of each kind stand for its rows.
    assert found.weights[unlabelled].sum() / found.weights.sum() == pytest.approx(1 / 3)


def test_labelled_rows_are_picked_as_if_there_were_no_others(found: gmmatch.Selection) -> None:
    alone = gmmatch.select(ROWS[:400], CODES[:400], keep=60)
    assert (found.indices[found.indices < 400] == alone.indices).all()
    assert found.objective == pytest.approx(alone.objective)
    assert found.tiers is not None
    assert alone.tiers is not None
    assert (found.tiers[:400] == alone.tiers).all()


def test_unlabelled_rows_are_those_of_a_run_that_goes_on_from_the_labelled_picks(
    found: gmmatch.Selection,
) -> None:
    labelled = found.indices[found.indices < 400]
    out = np.setdiff1d(np.arange(400), labelled)
    both = gmmatch.select(ROWS, keep=90, include=labelled, exclude=out)
    assert (both.indices[60:] == found.to_label).all()


def test_what_labelled_rows_lack_is_to_be_labelled() -> None:
    # No row of the fourth kind has a label, and every other kind has many.
    labels = NAMES[CODES]
    labels[CODES == 3] = None
    picked = pick(120, labels=labels)
    assert (CODES[picked.to_label] == 3).all()
    rare = NAMES[CODES]
    rare[(CODES == 3) | (np.arange(600) >= 500)] = None
    picked = pick(120, labels=rare)
    there = np.mean(CODES[np.setdiff1d(np.arange(600), np.flatnonzero(rare != None))] == 3)  # noqa: E711
    assert np.mean(CODES[picked.to_label] == 3) >= there


@pytest.mark.parametrize("batch_size", ["auto", 64])
def test_files_engines_and_memory_change_nothing(tmp_path: Path, batch_size: Any) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    first = pick(batch_size=batch_size)
    for options in ({"engine": "processes"}, {"memory": "70MB"}, {"state": tmp_path / "run.state"}):
        again = pick(rows=tmp_path / "rows.npy", batch_size=batch_size, **options)
        assert (again.indices == first.indices).all()
    assert not (tmp_path / "run.state").exists()
    first.save(tmp_path / "kept.parquet")
    loaded = gmmatch.load_selection(tmp_path / "kept.parquet")
    assert (loaded.to_label == first.to_label).all()
    assert loaded.to_pandas()["to_label"].sum() == 30
    assert len(loaded[:30].to_label) == 10


def test_numbers_as_labels_and_rows_that_are_bad() -> None:
    rows, labels = ROWS.copy(), np.where(np.arange(600) < 400, CODES, np.nan)
    rows[[3, 450]] = np.nan
    data = gmmatch.open(rows, labels, unlabelled="pick", on_bad_rows="drop")
    picked = gmmatch.select(data, keep=1.0)
    assert len(picked) == 598
    assert len(picked.to_label) == 199


def test_other_aims_hold_for_both_kinds() -> None:
    rows = ROWS.copy()
    rows[500:520] = rows[:20]
    picked = pick(1.0, rows, holdout=rows[[30, 430]], exclude=[31, 431], duplicates="drop")
    assert not np.isin([30, 31, 430, 431], picked.indices).any()
    pairs = picked.mask()[:20].astype(int) + picked.mask()[500:520]
    assert pairs.max() == 1
    with pytest.raises(InvalidParameter, match="cost is not for unlabelled='pick'"):
        pick(cost=np.ones(600))
    with pytest.raises(InvalidParameter, match="keep must be a share or a count"):
        pick("+5")
    with pytest.raises(InvalidParameter, match="methods that do without labels; el2n does not"):
        pick(method="el2n")


def test_suspects_and_report_are_of_the_labelled_rows(found: gmmatch.Selection, tmp_path: Path) -> None:
    suspects = found.suspects()
    assert suspects.rows.max() < 400
    assert len(suspects.rows) == 400
    page = found.report(tmp_path / "page.html")
    assert page.glance.kept == 90
    assert (gmmatch.suspects(gmmatch.open(ROWS, LABELS, unlabelled="pick")).rows == suspects.rows).all()


def test_the_command_line(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    lines = [f"{row},{label or ''}" for row, label in enumerate(LABELS)]
    (tmp_path / "labels.csv").write_text("\n".join(["row,label", *lines]) + "\n")
    kept = str(tmp_path / "kept.parquet")
    asked = ["select", str(tmp_path / "rows.npy"), "--labels", str(tmp_path / "labels.csv"), "--keep", "90"]
    ran = CliRunner().invoke(app, [*asked, "--unlabelled", "pick", "--json", "-o", kept])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout.strip().splitlines()[-1])["aims"]["unlabelled"]["picked"] == 30
    assert (gmmatch.load_selection(kept).indices == pick().indices).all()
    with pytest.raises(InvalidInput, match="unlabelled='pick' picks some to label"):
        gmmatch.select(ROWS, LABELS)


def test_ids_that_are_whole_numbers_name_no_other_rows(found: gmmatch.Selection) -> None:
    data = gmmatch.open(ROWS, LABELS, ids=np.arange(len(ROWS))[::-1], unlabelled="pick")
    assert (gmmatch.select(data, keep=90).indices == found.indices).all()


def test_rows_that_compete_without_a_label_are_not_said_to_be_left_out():
    rows, labels = np.random.default_rng(0).normal(size=(90, 4)), (np.arange(90) % 3).astype(float)
    labels[60:] = np.nan
    rows[5] = np.nan
    data = gmmatch.open(rows, labels, unlabelled="pick", on_bad_rows="drop")
    found = gmmatch.select(data, keep=30)
    assert found.info.bad_rows == 1
    assert "left out" not in found.info.hint
    assert "10 of 30 rows without a label were picked" in found.info.hint
    data = gmmatch.open(np.nan_to_num(rows), labels, unlabelled="pick")
    assert gmmatch.select(data, keep=30).info.bad_rows == 0


def test_counts_by_tier_are_those_of_the_rows_that_take_part() -> None:
    rows = ROWS.copy()
    rows[[3, 5, 450, 451]] = np.nan
    data = gmmatch.open(rows, LABELS, unlabelled="pick", on_bad_rows="drop")
    for source, n_rows in ((data, 596), (data.labelled(), 398)):
        found = gmmatch.select(source, keep=90)
        assert found.info.tiers is not None
        assert found.tiers is not None
        assert found.evidence is not None
        assert sum(found.info.tiers.values()) == n_rows
        took_part = np.ones(600, bool)
        took_part[[3, 5, *range(400, 600)] if source is not data else [3, 5, 450, 451]] = False
        counts = np.bincount(found.tiers[took_part], minlength=3).tolist()
        assert list(found.info.tiers.values()) == counts


def test_labels_are_fixed_beside_rows_without_one(tmp_path: Path) -> None:
    labels = LABELS.copy()
    labels[:20] = NAMES[(CODES[:20] + 1) % 4]
    found = pick(600, labels=labels, fix=0.9)
    assert found.labels is not None
    assert found.given_labels is not None
    given = found.given_labels.astype(object)
    known = found.indices < 400
    assert (given[known] == labels[found.indices[known]]).all()
    assert (given[~known] == found.labels[~known]).all()
    changed = found.indices[found.labels != found.given_labels]
    assert len(changed) > 10
    assert f"{len(changed)} labels were changed" in found.info.hint
    assert (found.labels[found.labels != given] == NAMES[CODES[changed]]).all()
    found.save(tmp_path / "kept.parquet")
    loaded = gmmatch.load_selection(tmp_path / "kept.parquet")
    assert loaded.labels.tolist() == found.labels.tolist()
    assert loaded.given_labels.tolist() == found.given_labels.tolist()
    found.report(tmp_path / "page.html")
