"""What can only be read forward is decoded once, or, without room on the disk, at every read."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from gmmatch.compute.reads import EachRow
from gmmatch.compute.runner import Threads, announce, announced, run_read
from gmmatch.data import ForwardRows, spill
from gmmatch.errors import InvalidInput

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(700, 6)).astype(np.float32)
FULL = 400  # rows of the first shard


class Memory:
    """A shard of rows in memory that notes which blocks were decoded."""

    travels = True

    def __init__(self, rows, begins=(0,)):
        self.rows, self.n_rows, self.begins = rows, len(rows), begins
        self.decoded = []

    def check(self):
        """Nothing changes."""

    def blocks(self, start, stop):
        begin = max(begin for begin in self.begins if begin <= start)
        for at in range(begin, stop, 10):
            self.decoded.append(at)
            block = self.rows[max(at, start) : min(at + 10, stop)]
            if len(block):
                yield block


@pytest.fixture
def shards(monkeypatch):
    monkeypatch.setattr(spill, "_CHUNK_BYTES", 24 * 50)
    monkeypatch.setattr(spill, "BLOCK_BYTES", 24 * 10)
    return [Memory(ROWS[:FULL], range(0, FULL, 100)), Memory(ROWS[FULL:])]


@pytest.fixture
def rows(shards):
    return ForwardRows(shards, 6, np.float32)


@pytest.fixture
def no_room(monkeypatch):
    monkeypatch.setattr(spill, "temporary_room", lambda: 0)


def decoded(shards):
    return [(number, at) for number, shard in enumerate(shards) for at in shard.decoded]


def test_each_block_is_decoded_once_whoever_asks_and_in_whatever_order(rows, shards):
    assert rows.spills
    assert list(rows.undecoded()) == [0, 1, 2, 3, 4]
    with ThreadPoolExecutor(4) as pool:
        starts = RNG.permutation(np.arange(0, 700, 7)).tolist()
        found = dict(zip(starts, pool.map(lambda start: rows[start : start + 7], starts), strict=True))
    for start, block in found.items():
        np.testing.assert_array_equal(block, ROWS[start : start + 7])
    assert rows.mapped is not None
    chosen = RNG.permutation(700)
    np.testing.assert_array_equal(rows[chosen], ROWS[chosen])
    np.testing.assert_array_equal(np.asarray(rows), ROWS)
    assert sorted(shards[0].decoded) == list(range(0, 400, 10))
    assert sorted(shards[1].decoded) == list(range(0, 300, 10))


def test_rows_that_were_never_requested_are_not_decoded(rows, shards):
    np.testing.assert_array_equal(rows[np.array([215, 130, 131])], ROWS[[215, 130, 131]])
    assert sorted(decoded(shards)) == [(0, at) for at in (100, 110, 120, 130, 200, 210)]
    assert rows.mapped is None


def test_a_read_decodes_all_rows_once_before_it_begins(rows, shards):
    rows[120:125]
    for _ in range(2):
        found = run_read(Threads(rows).rows, EachRow("reading", lambda at, values: (values[:, 0],)))[0]
        np.testing.assert_array_equal(found, ROWS[:, 0])
    assert rows.mapped is not None
    assert not rows.undecoded()
    assert [sorted(shard.decoded) for shard in shards] == [[*range(0, 400, 10)], [*range(0, 300, 10)]]


def test_a_copy_for_another_process_decodes_for_itself(rows):
    assert rows.mapped is None
    np.testing.assert_array_equal(rows[:], ROWS)
    copy = pickle.loads(pickle.dumps(rows))
    assert copy.mapped is None
    np.testing.assert_array_equal(copy[5:9], ROWS[5:9])


def test_rows_in_the_file_are_not_in_anonymous_memory(rows):
    assert isinstance(rows[:].base.base, np.memmap)
    assert not rows[:].flags.writeable


def test_what_stops_decoding_is_told_and_decoding_goes_on_from_there(rows, shards):
    whole = shards[1].blocks

    def broken(start, stop):
        yield ROWS[FULL : FULL + 10]
        raise InvalidInput("the object is gone")

    shards[1].blocks = broken
    with pytest.raises(InvalidInput, match="the object is gone"):
        rows[450:460]
    shards[1].blocks = whole
    np.testing.assert_array_equal(rows[450:460], ROWS[450:460])


@pytest.mark.usefixtures("no_room")
def test_without_room_passes_decode_each_block_once_in_every_read(rows, shards):
    assert not rows.spills
    times = []
    for _ in range(5):
        before = len(decoded(shards))
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda start: rows[start : start + 10].copy(), range(0, 700, 10)))
        np.testing.assert_array_equal(np.concatenate(found), ROWS)
        times.append(len(decoded(shards)) - before)
    # A thread that a busy machine stops for long finds its block gone, and decodes it again.
    assert min(times) <= 1.2 * 70
    chosen = RNG.permutation(700)[:90]
    np.testing.assert_array_equal(rows[chosen], ROWS[chosen])
    np.testing.assert_array_equal(rows[45:620], ROWS[45:620])


@pytest.mark.usefixtures("no_room")
def test_without_room_rows_that_were_announced_are_decoded_in_one_go(rows, shards):
    first, second = np.split(RNG.permutation(700)[:300], 2)
    announce(rows, first)
    announce(rows, np.concatenate([first[:10], second]))  # some that wait already
    before = decoded(shards)
    for part in (second[::2], first, second[1::2]):
        np.testing.assert_array_equal(rows[part], ROWS[part])
    assert decoded(shards) == before
    np.testing.assert_array_equal(rows[first[:3]], ROWS[first[:3]])  # once each: these are decoded again
    assert decoded(shards) != before


class Item:
    def __init__(self, rows):
        self.rows = rows


def test_items_are_announced_in_as_many_goes_as_memory_allows(rows, shards, monkeypatch):
    items = [Item(np.sort(part)) for part in np.split(RNG.permutation(700), 10)]
    assert list(announced(rows, items)) == items
    assert decoded(shards) == []
    monkeypatch.setattr(spill, "temporary_room", lambda: 0)
    rows = ForwardRows(shards, 6, np.float32)
    for memory, goes in ((None, 1), (4 * 24 * 350, 2)):
        shards[1].decoded.clear()
        for item in announced(rows, items, memory):
            np.testing.assert_array_equal(rows[item.rows], ROWS[item.rows])
        assert shards[1].decoded.count(150) == goes


def test_a_disk_that_is_full_in_the_middle_leaves_decoding_at_every_read(rows, shards, monkeypatch):
    begun = rows[:150]

    def full(self, first, values):
        raise spill.NoRoom

    monkeypatch.setattr(spill.Spill, "write", full)
    np.testing.assert_array_equal(rows[100:300], ROWS[100:300])
    assert not rows.spills
    np.testing.assert_array_equal(begun, ROWS[:150])
    np.testing.assert_array_equal(rows[:], ROWS)
    chosen = RNG.permutation(700)[:50]
    np.testing.assert_array_equal(rows[chosen], ROWS[chosen])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_a_write_that_the_disk_refuses_is_no_room():
    made = spill.Spill((10, 6), np.dtype(np.float32))
    with open("/dev/full", "r+b", buffering=0) as made._file, pytest.raises(spill.NoRoom):
        made.write(0, ROWS[:10])


@pytest.mark.parametrize("room", [True, False])
def test_rows_that_were_read_elsewhere_are_remembered(rows, shards, room, monkeypatch):
    if not room:
        monkeypatch.setattr(spill, "temporary_room", lambda: 0)
    chosen = np.sort(RNG.permutation(700)[:60])
    rows.remember(chosen, ROWS[chosen])
    for _ in range(2):
        np.testing.assert_array_equal(rows[chosen[::-1]], ROWS[chosen[::-1]])
    assert decoded(shards) == []
