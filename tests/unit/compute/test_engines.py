"""Functions, rows and per-row arrays on their way to a worker, and who does what; without a cluster."""

import functools
from dataclasses import replace
from itertools import pairwise

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmmatch
from gmmatch.compute import runner
from gmmatch.compute._crew import Crew, Lost, bundled, shards, take
from gmmatch.compute._worker import Call, Entries, Failure, Parcel, Worker, by_path, count_bytes, unpack
from gmmatch.compute.runner import PerRow, Runner, bundles, cut, spans
from gmmatch.data import Dataset
from gmmatch.errors import InvalidInput, WorkerFailed
from gmmatch.location.geometric_median import group_medians
from gmmatch.matching import chains
from gmmatch.validation import glance


class Backwards(Runner):
    """A runner of real workers in this process that does the last call first."""

    workers = 2

    def __init__(self, rows):
        super().__init__(rows)
        place = by_path(rows, "rows")
        self.crew = [Worker(place, glance(rows), lambda: "here") for _ in range(self.workers)]
        self.rounds, self.calls = 0, 0

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
        return Parcel.of(function, self.rows, cloudpickle.Pickler)

    def map(self, function, items, at_once=None, memory=None):
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
    monkeypatch.setattr(runner, "_ROWS_PER_GROUP", 1)
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
    medians = group_medians(source.rows, None, 1)
    offsets = np.asarray(source.rows, dtype=float) - medians[0].point
    assert medians[0].objective == pytest.approx(np.linalg.norm(offsets, axis=1).sum(), rel=1e-12)


class TestTransport:
    def test_rows_do_not_travel_and_per_row_arrays_only_where_they_are_looked_at(self, source):
        rows, codes = source.rows, PerRow(np.arange(4000))
        parcel = Parcel.of(lambda span: (rows[span].sum(), codes[span]), rows, cloudpickle.Pickler)
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


class Here(Crew):
    """Workers in this process, some of whose tasks are lost once."""

    def __init__(self, workers, lose=()):
        super().__init__(None, None, workers, cloudpickle.Pickler)
        self._idle, self.lose, self.had, self.calls = list(range(workers)), set(lose), [], {}

    def _number(self, worker):
        return worker

    def _begin(self, parcel):
        self.function = unpack(parcel.content, None)[0]

    def _send(self, worker, parcel, calls):
        self.calls[worker] = calls

    def _answers(self):
        worker, task = next(iter(self._busy.items()))
        if task.number in self.lose:
            self.lose.remove(task.number)
            self._idle.append(worker)
            yield worker, Lost("gone")
        else:
            self.had.append((worker, task.number, task.items))
            yield worker, [self.function(*call.arguments) for call in self.calls[worker]]

    def _abandon(self, worker):
        self._idle.append(worker)


class Always:
    """Every task is lost, however often."""

    def __contains__(self, number):
        return True

    def remove(self, number):
        """It stays."""


class Work(list):
    """Something of a size."""

    rows = np.arange(3)


class TestCrew:
    @settings(deadline=None)
    @given(st.integers(1, 200), st.integers(1, 9), st.sets(st.integers(0, 40)))
    def test_every_item_is_handed_out_once_though_workers_are_lost(self, count, workers, lose):
        crew = Here(workers, lose)
        assert list(crew.map(lambda item: item.start, cut(slice(0, count), 1))) == list(range(count))
        assert sorted(item.start for *_, items in crew.had for item in items) == list(range(count))

    def test_a_worker_has_a_contiguous_share(self):
        tasks = shards(range(96), 3)
        own = [[], [], []]
        while tasks:
            for worker in range(3):
                own[worker] += take(tasks, worker).items
        assert own == [list(range(32 * worker, 32 * worker + 32)) for worker in range(3)]

    def test_an_idle_worker_helps(self):
        tasks = shards(range(8), 2)
        taken = []
        while (task := take(tasks, 1)) is not None:
            taken += task.items
        assert sorted(taken) == list(range(8))

    @settings(deadline=None)
    @given(st.lists(st.integers(0, 100), min_size=1), st.integers(1, 5), st.sets(st.integers(0, 40)))
    def test_bundles_are_handed_out_once_the_largest_first(self, sizes, workers, lose):
        items = [Work([place] * size) for place, size in enumerate(sizes)]
        crew = Here(workers, lose)
        assert list(crew.map(len, items)) == sizes
        assert sorted(len(item) for *_, items in crew.had for item in items) == sorted(sizes)
        tasks = bundled(items, workers)
        order = [task.size for task in iter(lambda: take(tasks, 0), None)]
        assert order == sorted(order, reverse=True)
        assert order[0] >= max(sizes)

    def test_sequences_go_on_in_order_the_longest_first(self):
        sequences = [cut(slice(10, 12), 1), cut(slice(20, 21), 1), cut(slice(30, 45), 5)]
        crew = Here(2, lose={2})
        found = list(crew.follow(lambda state, item: (state + 1, item.start), sequences, [0, 5, 0]))
        assert 2 in [number for _, number, _ in crew.had[:2]]
        for number, expected in enumerate([[(1, 10), (2, 11)], [(6, 20)], [(1, 30), (2, 35), (3, 40)]]):
            assert [(state, result) for which, state, result in found if which == number] == expected

    def test_a_task_that_is_lost_too_often_is_named(self):
        crew = Here(2)
        crew.lose = Always()
        with pytest.raises(WorkerFailed, match="4 workers were lost in rows 0 to 3 of the input"):
            list(crew.map(len, [slice(0, 3)]))
        crew.lose = set()
        assert list(crew.map(lambda item: item.stop, [slice(0, 3)])) == [3]

    def test_bundles_of_very_uneven_sizes_are_even(self):
        sizes = [1000, *[1] * 1000]
        found = bundles(sizes, 2)
        assert sorted(sum(sizes[place] for place in places) for places in found) == [1000, 1000]
        assert functools.reduce(set.union, map(set, found)) == set(range(1001))
