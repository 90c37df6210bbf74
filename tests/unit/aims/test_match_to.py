"""Rows that say what the picks should be like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmmatch
from gmmatch.aims import match_to
from gmmatch.compute.reads import Sums
from gmmatch.compute.runner import PerRow, run_read
from gmmatch.errors import GmmatchError, InvalidInput, InvalidParameter
from tests.unit.aims.blobs import blobs

ROWS, LABELS = blobs(1200)
MORE, CODES = blobs(400, seed=8)


@pytest.mark.parametrize("labelled", [True, False])
def test_picks_are_like_the_reference(labelled: bool) -> None:
    labels = LABELS.copy()
    wrong = np.random.default_rng(0).choice(1200, 240, replace=False)
    labels[wrong] = np.random.default_rng(1).integers(0, 4, 240)
    reference = MORE[np.isin(CODES, (1, 2))][:60]
    found = gmmatch.select(ROWS, labels if labelled else None, keep=80, match_to=reference)
    assert len(found) == 80
    counts = np.bincount(LABELS[found.indices], minlength=4)
    assert counts[1] + counts[2] >= 72
    assert min(counts[1], counts[2]) >= 30
    assert found.info.aims is not None
    assert found.info.aims["match_to"][0]["rows"] == 60
    # Their mean is that of the reference.
    apart = np.linalg.norm(ROWS[found.indices].mean(axis=0) - reference.mean(axis=0))
    assert apart < 0.35 * np.linalg.norm(ROWS.mean(axis=0) - reference.mean(axis=0))


def test_references_have_shares(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{code}.npy") for code in (0, 3)]
    for path, code in zip(paths, (0, 3), strict=True):
        np.save(path, MORE[code == CODES][:40])
    found = gmmatch.select(ROWS, LABELS, keep=80, match_to={paths[0]: 0.75, paths[1]: 0.25})
    assert np.bincount(LABELS[found.indices], minlength=4).tolist() == [60, 0, 0, 20]


def test_what_nothing_resembles_is_told() -> None:
    reference = np.concatenate([MORE[CODES == 1][:40], MORE[CODES == 1][40:44] + 500])
    found = gmmatch.select(ROWS, LABELS, keep=40, match_to=reference)
    assert found.info.aims is not None
    assert found.info.aims["match_to"][0]["alone_rows"] == [40, 41, 42, 43]
    assert "nothing in the data is like 4 of 44 rows" in str(found.info.hint)
    assert np.bincount(LABELS[found.indices], minlength=4).tolist() == [0, 40, 0, 0]


def test_no_row_is_kept_that_is_not_like_the_reference() -> None:
    found = gmmatch.select(ROWS, LABELS, keep=600, match_to=MORE[CODES == 1][:40])
    assert len(found) == 300
    assert set(LABELS[found.indices].tolist()) == {1}
    assert "only 300 rows are like match_to; 600 were asked for" in str(found.info.hint)


def test_refused() -> None:
    with pytest.raises(InvalidParameter, match="pass one of them"):
        gmmatch.select(ROWS, match_to=MORE, strata=LABELS)
    with pytest.raises(InvalidInput, match="match_to has rows of 3 numbers"):
        gmmatch.select(ROWS, match_to=MORE[:, :3])
    with pytest.raises(InvalidParameter, match="a positive share"):
        gmmatch.select(ROWS, match_to={"a.npy": 0})


def test_files_that_are_matched_are_not_overwritten(tmp_path) -> None:
    rng = np.random.default_rng(0)
    wanted = tmp_path / "wanted.npy"
    np.save(wanted, rng.normal(size=(20, 4)))
    before = wanted.read_bytes()
    for given in (wanted, {str(wanted): 1.0}):
        with pytest.raises(GmmatchError, match=r"wanted\.npy"):
            gmmatch.select(rng.normal(size=(60, 4)), keep=5, match_to=given, output=wanted, overwrite=True)
    assert wanted.read_bytes() == before


@pytest.mark.parametrize("labelled", [True, False])
def test_a_report_shows_picks_of_parts(tmp_path: Path, labelled: bool) -> None:
    labels = LABELS if labelled else None
    source = np.arange(1200) % 3
    for options in ({"match_to": MORE[CODES == 1][:40]}, {"strata": source}):
        found = gmmatch.select(ROWS, labels, keep=60, **options)
        page = found.report(tmp_path / "page.html", overwrite=True)
        assert page.glance.kept == 60


def test_no_array_with_an_entry_per_row_is_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def noted(rows: Any, read: Sums) -> Any:
        sent.extend(cell.cell_contents for cell in read._function.__closure__)
        return run_read(rows, read)

    monkeypatch.setattr(match_to, "run_read", noted)
    gmmatch.select(ROWS, LABELS, keep=40, match_to=MORE[CODES == 1][:40])
    assert any(isinstance(held, PerRow) for held in sent)
    assert not any(isinstance(held, np.ndarray) and held.shape == (len(ROWS),) for held in sent)
