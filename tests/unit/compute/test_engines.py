"""Functions, rows and per-row arrays on their way to a worker, and who does what; without a cluster."""

import functools
from dataclasses import replace
from itertools import pairwise

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gmmatch
from gmmatch.compute import passes
from gmmatch.compute._agenda import Bundles, Sequences, Shards
from gmmatch.compute._by_path import by_path
from gmmatch.compute._worker import Call, Entries, Failure, Worker, count_bytes, pack
from gmmatch.compute.bundles import bundles
from gmmatch.compute.passes import PerRow, cut, spans, use_engine
from gmmatch.data import Dataset
from gmmatch.errors import InvalidInput
from gmmatch.location.geometric_median import group_medians
from gmmatch.matching import chains
from gmmatch.validation import glance


class Backwards:
    """An engine of real workers in this process that does the last call first."""

    workers = 2

    def __init__(self, rows):
        place = by_path(rows, "rows")
        self.crew = [Worker(place, glance(rows), lambda: "here") for _ in range(self.workers)]
        self.rows, self.rounds, self.calls = rows, 0, 0

    def holds(self, rows):
        while hasattr(rows, "rows"):
            rows = rows.rows
        return rows is self.rows

    def call(self, parcel, arguments, item):
        where = None
        if parcel.beside:
            where = item if isinstance(item, slice) else item.rows
        worker = self.crew[self.calls % self.workers]
        self.calls += 1
        call = Call(arguments, where, parcel.entries(where))
        results = worker.run(self.rounds, parcel.content, parcel.dtypes, [call])
        assert not isinstance(results, Failure), results
        return results[0]

    def packed(self, function):
        self.rounds += 1
        return pack(function, self.rows, cloudpickle.Pickler)

    def map(self, function, items):
        parcel = self.packed(function)
        return reversed([self.call(parcel, (item,), item) for item in reversed(items)])

    def follow(self, function, sequences, states):
        parcel = self.packed(function)
        for number, items in reversed(list(enumerate(sequences))):
            state = states[number]
            for item in items:
                state, result = self.call(parcel, (state, item), item)
                yield number, state, result


@pytest.fixture
def small_pieces(monkeypatch):
    """Blocks, spans and segments of a few rows, so that small data has many of each."""
    monkeypatch.setattr("gmmatch.compute.blocks._BLOCK_VALUES", 1 << 12)
    monkeypatch.setattr(passes, "_ROWS_PER_GROUP", 1)
    monkeypatch.setattr(chains, "SEGMENT_ROWS", 300)
    monkeypatch.setattr("gmmatch.matching.batches._MOST_BLOCKS", 8)


@pytest.fixture
def source(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 4000)
    labels[:40] = 5
    rows = (rng.normal(size=(4000, 16)) + 3.0 * rng.normal(size=(6, 16))[labels]).astype(np.float32)
    rows[1000:1300] += 50.0
    np.save(tmp_path / "rows.npy", rows)
    return gmmatch.open(tmp_path / "rows.npy", labels=labels)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("params", [
    {"guard": "off", "batch_size": 64},
    {"guard": "off", "batch_size": 64, "streams": 4, "normalize": "unit"},
    {"guard": "off", "batch_size": 50, "method": "herding"},
    {"batch_size": 64},
    {"batch_size": None},
], ids=["plain", "streams", "herding", "guard", "all rows"])  # fmt: skip
@pytest.mark.parametrize("labelled", [False, True])
def test_an_engine_gives_the_bits_of_this_machine(labelled, params, source):
    if not labelled:
        source = Dataset(source.rows, source.name, source.kind)
    engine = Backwards(source.rows)
    found, expected = (gmmatch.select(source, keep=0.1, engine=one, **params) for one in (engine, "local"))
    assert engine.calls > 10
    for name in ("indices", "scores", "distances", "tiers"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert (found.objective, found.epsilon) == (expected.objective, expected.epsilon)
    assert replace(found.info, engine="local") == expected.info


@pytest.mark.usefixtures("small_pieces")
def test_rows_that_take_no_part_are_nowhere_looked_at(source, tmp_path):
    rows = np.array(source.rows)
    rows[7] = np.nan
    np.save(tmp_path / "bad.npy", rows)
    mapped = np.load(tmp_path / "bad.npy", mmap_mode="r")
    picked = [
        gmmatch.select(mapped, keep=0.1, labels=source.labels, batch_size=64, on_bad_rows="drop", engine=one)
        if isinstance(one, str)
        else gmmatch.select(Dataset(mapped, "rows", "npy"), keep=0.1, labels=source.labels, batch_size=64,
                            on_bad_rows="drop", engine=one)
        for one in ("local", Backwards(mapped))
    ]  # fmt: skip
    np.testing.assert_array_equal(picked[0].indices, picked[1].indices)
    assert 7 not in picked[0].indices


@given(st.integers(1, 10**9), st.integers(1, 5000), st.integers(1, 10**5))
def test_spans_are_whole_blocks_and_hold_every_row_once(n_rows, step, n_groups):
    parts = spans(n_rows, step, n_groups)
    assert parts[0].start == 0
    assert parts[-1].stop == n_rows
    assert all(first.stop == second.start for first, second in pairwise(parts))
    assert all((part.stop - part.start) % step == 0 for part in parts[:-1])
    assert len(parts) <= 1024


@pytest.mark.usefixtures("small_pieces")
def test_sums_in_spans_are_as_good_as_any(source):
    with use_engine(None):
        medians = group_medians(source.rows, None, 1)
    offsets = np.asarray(source.rows, dtype=float) - medians[0].point
    assert medians[0].objective == pytest.approx(np.linalg.norm(offsets, axis=1).sum(), rel=1e-12)


class TestTransport:
    def test_rows_do_not_travel_and_per_row_arrays_only_where_they_are_looked_at(self, source):
        rows, codes = source.rows, PerRow(np.arange(4000))
        parcel = pack(lambda span: (rows[span].sum(), codes[span]), rows, cloudpickle.Pickler)
        assert parcel.content.nbytes < 2000
        assert parcel.beside[0].dtype == np.int16
        sent = parcel.entries(slice(10, 20))
        assert count_bytes(sent) == 20
        worker = Worker(by_path(rows, "rows"), glance(rows), lambda: "here")
        call = Call((slice(12, 15),), slice(10, 20), sent)
        total, own = worker.run(1, parcel.content, parcel.dtypes, [call])[0]
        assert total == rows[12:15].sum()
        assert own.dtype == np.int64
        assert own.tolist() == [12, 13, 14]

    @pytest.mark.parametrize("where", [slice(10, 20), np.arange(10, 20)])
    def test_entries_that_were_not_sent_are_missed(self, where):
        entries = Entries()
        entries.bind(where, np.arange(10, 20), np.dtype(np.int64))
        assert entries[slice(12, 14)].tolist() == [12, 13]
        assert entries[np.array([10, 19])].tolist() == [10, 19]
        for key in (slice(8, 12), slice(18, 22), np.array([9]), np.array([20])):
            with pytest.raises(IndexError, match="had not named"):
                entries[key]

    def test_a_worker_says_what_is_wrong(self, source, tmp_path):
        place = by_path(source.rows, "rows")
        assert Worker(place, "another", lambda: "here").hello().kind == "other rows"
        np.save(tmp_path / "gone.npy", np.zeros((3, 2)))
        gone = by_path(np.load(tmp_path / "gone.npy", mmap_mode="r"), "gone")
        (tmp_path / "gone.npy").unlink()
        failure = Worker(gone, "", lambda: "node 7").hello()
        assert (failure.kind, failure.node) == ("unreadable", "node 7")
        assert "there is no file" in failure.reason
        np.save(tmp_path / "gone.npy", np.zeros((1, 2)))
        assert "cannot be read" in Worker(gone, "", lambda: "here").hello().reason


class TestByPath:
    @pytest.mark.parametrize("cut_to", [slice(None), slice(3, 9)])
    def test_maps_and_slices_of_maps(self, cut_to, tmp_path):
        np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(20, 700)))
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")[cut_to]
        np.testing.assert_array_equal(by_path(rows, "rows").open(), rows)

    def test_shards_of_half_precision(self, tmp_path):
        rows = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float16)
        (tmp_path / "shards").mkdir()
        np.save(tmp_path / "shards" / "0.npy", rows[:7])
        np.save(tmp_path / "shards" / "1.npy", rows[7:])
        view = gmmatch.open(tmp_path / "shards").rows
        np.testing.assert_array_equal(by_path(view, "shards").open()[:], rows.astype(np.float32))

    @pytest.mark.parametrize("change", [np.array, lambda rows: rows[:, 1:], lambda rows: rows[::2]])
    def test_rows_in_memory_or_out_of_order_are_refused(self, change, tmp_path):
        np.save(tmp_path / "rows.npy", np.zeros((20, 5)))
        with pytest.raises(InvalidInput, match="reads rows by path"):
            by_path(change(np.load(tmp_path / "rows.npy", mmap_mode="r")), "rows")


def drain(agenda, workers, lose=()):
    """Let workers take turns until nothing is left; return who had which items."""
    had, lost = [], set()
    while agenda:
        for worker in range(workers):
            task = agenda.next(worker)
            if task is None:
                continue
            if task.number in lose and task.number not in lost:
                lost.add(task.number)
                agenda.put_back(task)
                continue
            had.append((worker, list(task.items), list(task.places)))
            if isinstance(agenda, Sequences):
                agenda.carry_on(task, (task.state or 0) + 1)
    return had


class TestAgenda:
    @given(st.integers(1, 200), st.integers(1, 9), st.sets(st.integers(0, 40)))
    def test_shards_hand_out_every_item_once_though_workers_are_lost(self, count, workers, lose):
        had = drain(Shards(range(count), workers), workers, lose)
        assert sorted(item for _, items, _ in had for item in items) == list(range(count))
        assert all(items == places for _, items, places in had)

    def test_a_worker_has_a_contiguous_share(self):
        had = drain(Shards(cut(slice(0, 96), 1), 3), 3)
        for worker in range(3):
            own = [item.start for who, items, _ in had for item in items if who == worker]
            assert own == list(range(32 * worker, 32 * worker + 32))

    def test_an_idle_worker_helps(self):
        agenda = Shards(range(8), 2)
        taken = []
        while (task := agenda.next(1)) is not None:
            taken += task.items
        assert sorted(taken) == list(range(8))

    @given(st.lists(st.integers(0, 100), min_size=1), st.integers(1, 5), st.sets(st.integers(0, 40)))
    def test_bundles_hand_out_every_item_once_the_largest_first(self, sizes, workers, lose):
        agenda = Bundles(sizes, [str(place) for place in range(len(sizes))], workers)
        assert max(sizes) in [sizes[place] for place in agenda.tasks[0].places]
        had = drain(agenda, workers, lose)
        places = [place for _, _, own in had for place in own]
        assert sorted(places) == list(range(len(sizes)))
        assert [item for _, items, _ in had for item in items] == [str(place) for place in places]

    def test_sequences_go_on_in_order_the_longest_first(self):
        sequences = [["a", "b"], ["c"], ["d", "e", "f"]]
        agenda = Sequences(sequences, [0, 0, 0], [[1, 1], [1], [5, 5, 5]])
        had = drain(agenda, 2, lose={2})
        assert had[0][1] == ["d"] or had[1][1] == ["d"]
        for sequence in sequences:
            order = [items[0] for _, items, _ in had if items[0] in sequence]
            assert order == sequence

    def test_bundles_of_very_uneven_sizes_are_even(self):
        sizes = [1000, *[1] * 1000]
        found = bundles(sizes, 2)
        assert sorted(sum(sizes[place] for place in places) for places in found) == [1000, 1000]
        assert functools.reduce(set.union, map(set, found)) == set(range(1001))
