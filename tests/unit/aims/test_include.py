"""Rows that are in already, or out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch
from gmmatch.errors import InvalidInput, InvalidInputType
from gmmatch.matching.budgets import Weights, sequence, share
from gmmatch.records import Carried
from gmmatch.trust.inputs import FourierFeatures
from tests.unit.aims.blobs import blobs

ROWS, LABELS = blobs()


@pytest.fixture(scope="module")
def whole() -> gmmatch.Selection:
    return gmmatch.select(ROWS, LABELS, keep=100)


@pytest.mark.parametrize("picks", [1, 3, 17, 60, 99])
def test_a_prefix_is_followed_by_the_rest_of_the_sequence(whole: gmmatch.Selection, picks: int) -> None:
    found = gmmatch.select(ROWS, LABELS, keep=100, include=whole[:picks])
    assert (found.indices == whole.indices).all()
    assert np.allclose(found.scores, whole.scores)
    assert found.objective == pytest.approx(whole.objective)


@pytest.mark.parametrize(
    "params",
    [{"guard": "off"}, {"guard": "off", "center": "mean"}, {"budgets": "equal", "strategy": "rows"}],
)
def test_a_prefix_is_followed_by_the_rest_whatever_the_parameters(params: Any) -> None:
    first = gmmatch.select(ROWS, LABELS, keep=60, **params)
    found = gmmatch.select(ROWS, LABELS, keep=60, include=first.indices[:23], **params)
    assert (found.indices == first.indices).all()


def test_the_sequence_goes_on_from_any_of_its_places() -> None:
    weights, sizes = Weights(np.array([50, 30, 7])), np.array([[50, 30, 7]])
    classes, turns = sequence(weights, sizes)
    for begun in (0, 1, 2, 3, 10, 86):
        counts = np.bincount(classes[:begun], minlength=3)
        rest = sequence(weights, sizes, counts)
        assert (rest[0] == classes[begun:]).all()
        assert (rest[1] == turns[begun:]).all()
        assert (share(weights, sizes, 87, counts) == sizes[0]).all()


@pytest.mark.parametrize("method", ["gm-matching", "random", "easy", "k-center", "herding"])
def test_included_rows_come_first_and_count(method: str) -> None:
    included = np.flatnonzero(LABELS == 2)[:30]
    found = gmmatch.select(ROWS, LABELS, keep=60, include=included, method=method)
    assert (found.indices[:30] == included).all()
    assert len(set(found.indices.tolist())) == len(found) == 60
    # The class has its share already, and the others share the rest.
    assert np.bincount(LABELS[found.indices], minlength=4).tolist() == [10, 10, 30, 10]


def test_the_mean_of_included_rows_is_made_up_for() -> None:
    offsets = ROWS[LABELS == 1] - ROWS[LABELS == 1].mean(axis=0)
    odd = np.flatnonzero(LABELS == 1)[np.argsort(-offsets[:, 0])[:5]]
    found = gmmatch.select(ROWS, LABELS, keep=100, include=odd)
    own = found.indices[LABELS[found.indices] == 1]
    center = ROWS[LABELS == 1].mean(axis=0)
    alone = np.linalg.norm(ROWS[odd].mean(axis=0) - center)
    assert np.linalg.norm(ROWS[own].mean(axis=0) - center) < 0.3 * alone


def test_rows_can_be_named_in_many_ways(whole: gmmatch.Selection, tmp_path: Path) -> None:
    file, names = tmp_path / "kept.parquet", np.array([f"row-{row}" for row in range(len(ROWS))])
    part = whole[:20]
    part.save(file)
    mask = np.zeros(len(ROWS), bool)
    mask[part.indices] = True
    for given in (part, file, str(file), part.indices.tolist(), mask):
        found = gmmatch.select(ROWS, LABELS, keep=40, exclude=given)
        assert not np.intersect1d(found.indices, part.indices).size
    data = gmmatch.open(ROWS, LABELS, ids=names)
    (tmp_path / "ids.txt").write_text("\n".join(names[part.indices]))
    for given in (names[part.indices], tmp_path / "ids.txt"):
        found = gmmatch.select(data, keep=40, include=given)
        assert (found.indices[:20] == part.indices).all()


def test_excluded_rows_play_no_part_where_nothing_is_judged() -> None:
    out = np.random.default_rng(1).choice(len(ROWS), 150, replace=False)
    left = np.setdiff1d(np.arange(len(ROWS)), out)
    found = gmmatch.select(ROWS, LABELS, keep=50, exclude=out, guard="off")
    assert (
        found.indices == left[gmmatch.select(ROWS[left], LABELS[left], keep=50, guard="off").indices]
    ).all()
    assert found.info.aims == {"exclude": {"rows": 150}}


def test_batches_and_memory_change_nothing() -> None:
    rows, labels = blobs(3000)
    asked: Any = {"keep": 200, "include": np.arange(40), "exclude": np.arange(40, 900), "batch_size": 64}
    found = gmmatch.select(rows, labels, **asked)
    assert (found.indices[:40] == np.arange(40)).all()
    assert len(np.unique(found.indices)) == 200
    assert found.indices[40:].min() >= 900
    assert (gmmatch.select(rows, labels, memory="70MB", **asked).indices == found.indices).all()


def test_a_count_beyond_what_is_in(whole: gmmatch.Selection) -> None:
    found = gmmatch.select(ROWS, LABELS, keep="+75", include=whole[:25])
    assert (found.indices == whole.indices).all()
    with pytest.raises(InvalidInput, match=r'include has 25 already; keep more.*keep="\+10"'):
        gmmatch.select(ROWS, LABELS, keep=10, include=whole[:25])


def test_refused() -> None:
    with pytest.raises(InvalidInput, match="exclude names row 400; expected numbers from 0 to 399"):
        gmmatch.select(ROWS, exclude=[400])
    with pytest.raises(InvalidInput, match="include and exclude both name row 7; name it once"):
        gmmatch.select(ROWS, include=[7], exclude=[5, 7])
    with pytest.raises(InvalidInput, match="exclude names ids, and X has none"):
        gmmatch.select(ROWS, exclude=["a"])
    with pytest.raises(InvalidInput, match="names 1 ids that X does not have"):
        gmmatch.select(gmmatch.open(ROWS, ids=[f"r{row}" for row in range(400)]), exclude=["a"])
    with pytest.raises(
        InvalidInputType, match="exclude takes a selection, its file, ids, row numbers or a mask"
    ):
        gmmatch.select(ROWS, exclude=1.5)
    with pytest.raises(InvalidInput, match="no row may be picked"):
        gmmatch.select(ROWS, exclude=np.ones(400, bool))


@pytest.mark.parametrize("strategy", ["rows", "auto"])
def test_other_data_goes_on_from_an_earlier_selection(tmp_path: Path, strategy: str) -> None:
    file, kept, shards = tmp_path / "kept.parquet", [], np.array_split(np.arange(len(ROWS)), 4)
    found = None
    for shard in shards:
        earlier = None if found is None else file
        found = gmmatch.select(ROWS[shard], LABELS[shard], keep="+20", include=earlier, strategy=strategy)
        found.save(file)
        kept.append(shard[found.indices])
    assert found is not None
    every = np.concatenate(kept)
    again = gmmatch.load_selection(file)
    assert [len(own) for own in again.included] == [20, 20, 20]
    assert [
        (own.rows == rows).all() for own, rows in zip(again.included, [found.included[0].rows], strict=False)
    ]
    assert again.carried is not None
    assert again.carried.counts.tolist() == np.bincount(LABELS[every]).tolist()
    known = ROWS.astype(np.float64)
    if again.carried.fourier is not None:
        known = np.hstack([known, FourierFeatures(*again.carried.fourier)(ROWS)])
    assert (again.carried.fourier is None) == (strategy == "rows")
    for code in range(4):
        own = known[every][LABELS[every] == code]
        assert np.allclose(again.carried.totals[code], own.sum(axis=0), atol=1e-3)
        believed = np.concatenate([shard[LABELS[shard] == code] for shard in shards])
        if again.carried.rows[code] == len(believed):
            assert np.allclose(again.carried.targets[code], known[believed].mean(axis=0), atol=1e-3)
    # Not far from the error of one run over all rows.
    one = gmmatch.select(ROWS, LABELS, keep=80, strategy=strategy)

    def error(rows: Any) -> float:
        means = [
            (ROWS[rows[LABELS[rows] == code]].mean(axis=0), ROWS[code == LABELS].mean(axis=0))
            for code in range(4)
        ]
        return float(np.mean([np.linalg.norm(own - center) for own, center in means]))

    random = gmmatch.select(ROWS, LABELS, keep=80, method="random").indices
    most = 1.6 * error(one.indices) if strategy == "rows" else 0.7 * error(random)
    assert error(every) <= most


def test_fourier_features_that_are_too_many_are_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    found = gmmatch.select(ROWS[:200], LABELS[:200], keep=20, strategy="fourier")
    assert found.carried is not None
    assert found.carried.fourier is not None
    monkeypatch.setattr("gmmatch.records._MOST_PACKED", 4 * ROWS.shape[1])
    packed = found.carried.pack()
    assert packed is not None
    rows_alone = Carried.unpack(packed)
    assert rows_alone.fourier is None
    assert np.array_equal(rows_alone.totals, found.carried.totals[:, : ROWS.shape[1]])
    # Classes that only one of two selections has keep what both know of them.
    one, other = found.carried, gmmatch.select(ROWS[200:], LABELS[200:] + 4, keep=20, strategy="rows").carried
    assert other is not None
    joined = other.joined(one)
    assert joined.fourier is None
    assert len(joined.labels) == 8
    monkeypatch.setattr("gmmatch.records._MOST_PACKED", 1)
    assert found.carried.pack() is None


def test_a_total_counts_what_is_elsewhere() -> None:
    half = slice(0, 200)
    earlier = gmmatch.select(ROWS[half], LABELS[half], keep=40)
    found = gmmatch.select(ROWS[200:], LABELS[200:], keep=100, include=earlier)
    assert len(found) == 60
    assert np.bincount(LABELS[200:][found.indices]).tolist() == [15, 15, 15, 15]
    with pytest.raises(InvalidInput, match="include has 40 of other data"):
        gmmatch.select(ROWS[200:], LABELS[200:], keep=30, include=earlier)
    with pytest.raises(InvalidInput, match="pass labels"):
        gmmatch.select(ROWS[200:], keep=30, include=earlier)
    with pytest.raises(InvalidInput, match="does not say how to go on"):
        gmmatch.select(ROWS[200:], LABELS[200:], keep="+30", include=earlier[:10])
    with pytest.raises(InvalidInput, match="exclude is a selection of other data"):
        gmmatch.select(ROWS[200:], LABELS[200:], exclude=earlier)


def test_all_rows_of_an_id_are_in_or_out() -> None:
    data = gmmatch.open(ROWS, LABELS, ids=[f"document {row // 4}" for row in range(len(ROWS))])
    names = [f"document {number}" for number in range(0, len(ROWS) // 4, 2)]
    out = np.arange(len(ROWS)) // 4 % 2 == 0
    found = gmmatch.select(data, keep=int((~out).sum()), exclude=names)
    assert not out[found.indices].any()
    found = gmmatch.select(data, keep=100, include=names[:2])
    assert found.indices[:8].tolist() == [0, 1, 2, 3, 8, 9, 10, 11]


@pytest.mark.parametrize("aim", ["include", "exclude"])
def test_what_could_mean_other_rows_is_refused(aim: str) -> None:
    mask = np.arange(len(ROWS)) < 30
    with pytest.raises(InvalidInputType, match="a 0 or a 1 for each row; a mask is of booleans"):
        gmmatch.select(ROWS, LABELS, keep=100, **{aim: mask.astype(int)})
    with pytest.raises(InvalidInputType, match="entries that are masked"):
        gmmatch.select(ROWS, LABELS, keep=100, **{aim: np.ma.masked_array([3, 4, 5], [0, 1, 0])})
    data = gmmatch.open(ROWS, LABELS, ids=np.arange(len(ROWS)) + 1)
    with pytest.raises(InvalidInput, match="names 5, which is an id of X, and 0, which is none"):
        gmmatch.select(data, keep=100, **{aim: [0, 5]})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.parametrize("aim", ["include", "exclude"])
def test_a_pipe_is_not_waited_for(aim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "kept.parquet")
    monkeypatch.setattr(pq, "read_schema", lambda path: pytest.fail("reading it would wait for ever"))
    with pytest.raises(InvalidInput, match="cannot read the selection"):
        gmmatch.select(ROWS, LABELS, keep=100, **{aim: tmp_path / "kept.parquet"})


@pytest.mark.parametrize("aim", ["include", "exclude"])
def test_nothing_may_be_in_or_out(whole: gmmatch.Selection, aim: str) -> None:
    for nothing in ([], np.array([]), np.zeros(len(ROWS), bool)):
        found = gmmatch.select(ROWS, LABELS, keep=100, **{aim: nothing})
        assert (found.indices == whole.indices).all()


def test_a_selection_that_went_on_from_other_data_keeps_it_when_it_is_completed() -> None:
    first = gmmatch.select(ROWS[:300], LABELS[:300], keep=30)
    second = gmmatch.select(ROWS[300:], LABELS[300:], keep="+20", include=first)
    more = gmmatch.select(ROWS[300:], LABELS[300:], keep="+5", include=second)
    assert more.indices[:20].tolist() == second.indices.tolist()
    assert [len(own) for own in more.included] == [30]
    counted = gmmatch.select(ROWS[300:], LABELS[300:], keep=55, include=second)
    assert counted.indices.tolist() == more.indices.tolist()
    with pytest.raises(InvalidInput, match="include has 30 of other data"):
        gmmatch.select(ROWS[300:], LABELS[300:], keep=30, include=second)


def test_rows_of_a_selection_of_other_data_are_excluded_where_their_ids_are_known() -> None:
    ids = np.array([f"row-{row}" for row in range(len(ROWS))])
    first = gmmatch.select(gmmatch.open(ROWS, LABELS, ids=ids), keep=60)
    later = gmmatch.open(ROWS[100:], LABELS[100:], ids=ids[100:])
    found = gmmatch.select(later, keep=60, exclude=first)
    assert not set(found.ids) & set(first.ids)
    shared = set(first.ids) & set(ids[100:])
    assert found.info.aims is not None
    assert found.info.aims["exclude"] == {"rows": len(shared)}


def test_rows_that_a_selection_of_other_data_has_are_not_picked_again() -> None:
    ids = np.array([f"row-{row}" for row in range(len(ROWS))])
    first = gmmatch.select(gmmatch.open(ROWS[:300], LABELS[:300], ids=ids[:300]), keep=60)
    later = gmmatch.open(ROWS[100:], LABELS[100:], ids=ids[100:])
    shared = set(first.ids) & set(ids[100:])
    found = gmmatch.select(later, keep=len(later) - len(shared) + 60, include=first)
    assert len(found) == len(later) - len(shared)
    assert not set(found.ids) & set(first.ids)
    assert f"{len(shared)} rows have ids that include names, and were not picked again" in found.info.hint


def test_how_rows_of_another_fingerprint_were_found_is_said(whole: gmmatch.Selection) -> None:
    corrected = LABELS.copy()
    corrected[3] = (corrected[3] + 1) % 4
    found = gmmatch.select(ROWS, corrected, keep="+30", include=whole)
    assert "its 100 rows count as picked elsewhere" in found.info.hint
    ids = np.arange(len(ROWS)) + 1
    named = gmmatch.select(gmmatch.open(ROWS, LABELS, ids=ids), keep=60)
    for aim in ("include", "exclude"):
        found = gmmatch.select(gmmatch.open(ROWS, corrected, ids=ids), keep=90, **{aim: named})
        assert f"{aim} is a selection of other rows or labels" in found.info.hint
        assert "found by their ids" in found.info.hint
    assert gmmatch.select(ROWS, LABELS, keep="+30", include=whole).info.hint is None


@pytest.mark.parametrize("ending", [".csv", ".txt", ".npy", ".parquet"])
def test_a_file_of_ids_names_ids_wherever_rows_have_some(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def write(ids: Any) -> Path:
        path = Path(f"out{ending}")
        if ending == ".npy":
            np.save(path, np.array(ids))
        elif ending == ".parquet":
            pq.write_table(pa.table({"id": ids}), path)
        else:
            path.write_text("id\n" * (ending == ".csv") + "".join(f"{key}\n" for key in ids))
        return path

    def left_out(data: Any, ids: Any) -> list[int]:
        found = gmmatch.select(data, keep=1.0, exclude=write(ids))
        return sorted(set(range(len(ROWS))) - set(found.indices.tolist()))

    zeros = gmmatch.open(ROWS, LABELS, ids=[f"{row:04d}" for row in range(len(ROWS))])
    with pytest.raises(InvalidInput, match="names 2 ids that X does not have, such as '7'"):
        left_out(zeros, [7, 8])
    numbers = np.arange(len(ROWS)) + 1
    assert left_out(gmmatch.open(ROWS, LABELS, ids=numbers), [8, 7]) == [6, 7]
    assert left_out(gmmatch.open(ROWS, LABELS), [8, 7]) == [7, 8]
    table = {"v": ROWS.tolist(), "label": LABELS, "id": numbers}
    pq.write_table(pa.table(table), "rows.parquet")  # whose ids nobody named
    with pytest.raises(InvalidInput, match="names 8, which may be the number of a row or an id"):
        left_out(gmmatch.open("rows.parquet", "label"), [8, 7])
    pq.write_table(pa.table(table | {"id": [f"row-{row}" for row in numbers]}), "rows.parquet")
    assert left_out(gmmatch.open("rows.parquet", "label"), ["row-8", "row-7"]) == [6, 7]
    pq.write_table(pa.table(table | {"id": numbers - 1}), "rows.parquet")
    assert left_out(gmmatch.open("rows.parquet", "label"), [8, 7]) == [7, 8]
