"""Carried batches against the same thing written out: every batch, every pick, every chain on its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gmmatch.compute.runner import Threads
from gmmatch.matching import chains as chains_module
from gmmatch.matching import stream as stream_module
from gmmatch.matching.batches import windows
from gmmatch.matching.chains import Turn, segments
from gmmatch.matching.objectives import running_objectives
from gmmatch.matching.stream import Stream

N_ROWS, WIDTH, BATCH = 3000, 4, 40


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows, reads and segments of a few rows, so that small data has many of each."""
    monkeypatch.setattr("gmmatch.matching.batches._MOST_BLOCKS", 8)
    monkeypatch.setattr(chains_module, "_TOGETHER_VALUES", 100 * WIDTH)
    monkeypatch.setattr(chains_module, "SEGMENT_ROWS", 150)
    monkeypatch.setattr(stream_module, "SEGMENT_ROWS", 500)


def made(step: Any = "residual") -> Stream:
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 3, N_ROWS)
    codes[codes == 2] = np.where(rng.random((codes == 2).sum()) < 0.2, 2, 0)  # a smaller class
    return Stream(
        rows=rng.normal(size=(N_ROWS, WIDTH)) + codes[:, None],
        codes=codes,
        centers=rng.normal(size=(3, WIDTH)),
        starts=rng.normal(size=(3, WIDTH)),
        budgets=np.array([90, 71, 20]),
        streams=np.array([3, 1, 2]),
        step=step,
        batch_size=BATCH,
        seed=4,
    )


def sainte_lague(weights: list[int], most: list[int], k: int) -> list[int]:
    """Return whose turn each of `k` picks is: everyone's first, then by the largest quotient."""
    order = sorted(range(len(weights)), key=lambda own: -weights[own])[:k]
    counts = [order.count(own) for own in range(len(weights))]
    while len(order) < k:
        able = [own for own in range(len(weights)) if counts[own] < most[own]]
        best = max(able, key=lambda own: (weights[own] / (2 * counts[own] + 1), -own))
        order.append(best)
        counts[best] += 1
    return order


def written_out(stream: Stream) -> list[tuple[list[int], list[float], list[float], float]]:
    """Return rows, objectives and distances of each class in pick order, and its final objective."""
    visits = np.concatenate(list(windows(N_ROWS, WIDTH, stream.seed)))
    found = []
    for code, (center, start) in enumerate(zip(stream.centers, stream.starts, strict=True)):
        own = visits[stream.codes[visits] == code]
        batches = [np.sort(own[first : first + BATCH]) for first in range(0, len(own), BATCH)]
        n_chains = int(stream.streams[code])
        runs: list[list[Any]] = [[] for _ in range(n_chains)]
        for number, batch in enumerate(batches):
            runs[number * n_chains // len(batches)].append(batch)
        sizes = [sum(map(len, run)) for run in runs]
        budgets = np.bincount(sainte_lague(sizes, sizes, int(stream.budgets[code])), minlength=n_chains)
        told, error = [], np.zeros(WIDTH)
        for run, size, budget in zip(runs, sizes, budgets.tolist(), strict=True):
            theta, seen, picks = start.copy(), 0, []
            for batch in run:
                quota = (seen + len(batch)) * budget // size - len(picks)
                seen, left = seen + len(batch), batch.tolist()
                for _ in range(quota):
                    offsets = stream.rows[left] - center
                    gains = offsets @ theta
                    if stream.step == "residual":
                        gains = gains - (offsets**2).sum(axis=1) / 2
                    best = int(gains.argmax())
                    theta = theta - offsets[best]
                    length = float(np.linalg.norm(start - theta)) / (len(picks) + 1)
                    picks.append((left.pop(best), length, float(np.linalg.norm(offsets[best]))))
            told.append(iter(picks))
            error += start - theta
        lengths = budgets.tolist()
        merged = [next(told[chain]) for chain in sainte_lague(lengths, lengths, int(stream.budgets[code]))]
        rows, scores, distances = (list(column) for column in zip(*merged, strict=True))
        found.append((rows, scores, distances, float(np.linalg.norm(error)) / len(rows)))
    return found


def check(found: list[Any], expected: list[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert list(one[0]) == list(other[0])
        np.testing.assert_allclose(one[1], other[1])
        np.testing.assert_allclose(one[2], other[2])
        assert one[3] == pytest.approx(other[3])


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("step", ["residual", "projection"])
def test_every_chain_picks_from_batch_to_batch_what_brute_force_does(step: str) -> None:
    stream = made(step)
    check(stream.run(), written_out(stream))


class Noted:
    """Rows that note which of them were read."""

    def __init__(self, rows: np.ndarray) -> None:
        self.values, self.shape, self.dtype, self.read = rows, rows.shape, rows.dtype, []

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, key: Any) -> Any:
        self.read += np.arange(len(self))[key].tolist()
        return self.values[key]


@pytest.mark.usefixtures("small_pieces")
def test_what_was_saved_is_gone_on_from_and_nothing_is_read_twice() -> None:
    stream = made()
    saved: list[dict[str, Any]] = []
    whole = stream.run(saved.append)
    seen = [state["seen"].sum() for state in saved]
    assert len(saved) > 2
    assert (np.diff([0, *seen]) >= 500).all()
    assert (np.diff([0, *seen]) < 500 + 2 * BATCH + 100).all()  # as soon as there is so much to save
    for state, before in zip(saved[::2], seen[::2], strict=True):
        noted = Noted(np.asarray(stream.rows))
        check(replace(stream, rows=noted).run(state=state), whole)
        assert len(noted.read) == len(set(noted.read)) == (stream.codes >= 0).sum() - before


class OneByOne(Threads):
    """A runner that follows sequences here, the last first, and counts its calls."""

    workers = 2

    def __init__(self, rows: Any) -> None:
        super().__init__(rows)
        self.lengths: list[int] = []

    def follow(self, function: Any, sequences: Any, states: Any) -> Iterator[Any]:
        for number in reversed(range(len(sequences))):
            state = states[number]
            for segment in sequences[number]:
                self.lengths.append(len(segment))
                assert (np.diff(segment.rows) > 0).all()
                assert len(segment.rows) == len(segment)
                state, result = function(state, segment)
                yield number, state, result


@pytest.mark.usefixtures("small_pieces")
def test_chains_may_run_anywhere_and_in_any_order() -> None:
    stream = made()
    engine = OneByOne(stream.rows)
    there = replace(stream, rows=engine.rows)
    saved: list[dict[str, Any]] = []
    found = there.run(saved.append)
    again = there.run(state=saved[1])
    check(found, written_out(stream))
    check(again, found)
    assert sum(engine.lengths) == 2 * (stream.codes >= 0).sum() - saved[1]["seen"].sum()
    assert max(engine.lengths) < 150 + BATCH


def test_segments_hold_turns_as_they_were() -> None:
    rng = np.random.default_rng(1)
    turns = [Turn(chain, np.sort(rng.choice(10**6, size)), size // 3) for chain, size in [(2, 30), (0, 7)]]
    for n_rows, kind in ((10**6, np.uint32), (1 << 32, np.uint32), ((1 << 32) + 1, np.int64)):
        (packed,) = segments(turns, n_rows)
        assert len(packed) == 37
        assert {turn.rows.dtype for turn in packed.turns} == {np.dtype(kind)}
        for one, other in zip(packed.turns, turns, strict=True):
            assert (one.chain, one.rows.tolist(), one.quota) == (
                other.chain,
                other.rows.tolist(),
                other.quota,
            )
    assert [len(part) for part in segments(turns * 3, 10**6)] == [3 * 37]


@pytest.mark.usefixtures("small_pieces")
def test_segments_end_as_soon_as_they_have_enough_rows() -> None:
    turns = [Turn(0, np.arange(size), 1) for size in (100, 49, 1, 150, 200, 30)]
    assert [[len(turn.rows) for turn in part.turns] for part in segments(turns, 1000)] == [
        [100, 49, 1],
        [150],
        [200],
        [30],
    ]


def test_turns_of_a_chain_that_follow_each_other_are_read_together_up_to_so_many_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chains_module, "_TOGETHER_VALUES", 300)
    turns = [
        Turn(chain, np.arange(size), 1)
        for chain, size in [(0, 50), (0, 50), (0, 51), (0, 50), (1, 1), (1, 99)]
    ]
    found = [[len(turn.rows) for turn in part] for part in chains_module._together(turns, 3)]
    assert found == [[50, 50], [51], [50], [1, 99]]
    assert not list(chains_module._together([], 3))


def test_objectives_that_an_engine_measures_in_parts_are_those_of_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gmmatch.compute.blocks._BLOCK_VALUES", 1 << 9)
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(700, 16))
    orders = [rng.permutation(700)[:size] for size in (600, 5, 90)]
    centers = list(rng.normal(size=(3, 16)))
    plain = running_objectives(rows, orders, centers)
    engine = OneByOne(rows)
    found = running_objectives(engine.rows, orders, centers)
    assert len(engine.lengths) == 19 + 1 + 3  # blocks of 32 picks, by group
    for one, other, order, center in zip(found, plain, orders, centers, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        means = np.cumsum(rows[order], axis=0) / np.arange(1, len(order) + 1)[:, None]
        np.testing.assert_allclose(one[0], np.linalg.norm(means - center, axis=1), rtol=1e-9)
        np.testing.assert_allclose(one[1], np.linalg.norm(rows[order] - center, axis=1), rtol=1e-9)
