"""The parts of the matching, each against the same thing written out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gmmatch
from gmmatch.compute import kernels
from gmmatch.compute.blocks import block_rows
from gmmatch.compute.keys import row_keys
from gmmatch.location.geometric_median import certify
from gmmatch.matching import greedy as greedy_module
from gmmatch.matching.batches import (
    BLOCK_ROWS,
    Router,
    chain_of,
    chain_sizes,
    window_blocks,
    windows,
)
from gmmatch.matching.features import choose_fourier_features
from gmmatch.matching.greedy import (
    Matching,
    Step,
    centered,
    gram_matrix,
    gram_pays,
    match_batches,
    prepare,
    product_error,
)
from gmmatch.matching.kmeans import Rounds, kmeans, nearest, spread_out
from gmmatch.matching.objectives import running_objective, running_objectives
from gmmatch.matching.stream import Chain
from gmmatch.matching.targets import (
    _sample_medians,
    sampled_medians,
    stream_centers,
)


def logical_order(n_rows: int, n_features: int, seed: int) -> Any:
    """Return the order in which the rows are visited."""
    return np.concatenate(list(windows(n_rows, n_features, seed)))


@pytest.mark.parametrize("n_rows", [1, 255, 256, 257, 5000])
def test_the_logical_order_visits_every_row_once_whole_blocks_at_a_time(n_rows: int) -> None:
    order = logical_order(n_rows, 1 << 14, seed=3)
    assert np.sort(order).tolist() == list(range(n_rows))
    assert order.tolist() == logical_order(n_rows, 1 << 14, seed=3).tolist()
    if n_rows > 1:
        assert order.tolist() != logical_order(n_rows, 1 << 14, seed=4).tolist()
    for window in windows(n_rows, 1 << 14, seed=3):
        whole = np.unique(window // BLOCK_ROWS)
        assert len(whole) <= window_blocks(1 << 14) == 8
        inside = np.isin(np.arange(n_rows) // BLOCK_ROWS, whole)
        assert np.sort(window).tolist() == np.flatnonzero(inside).tolist()


def test_a_window_holds_so_many_values_and_never_fewer_than_eight_blocks() -> None:
    assert [window_blocks(width) for width in (1, 512, 1024, 2048, 1 << 20)] == [256, 256, 128, 64, 8]


def test_rows_are_dealt_out_to_batches_of_their_class_in_the_order_of_their_visit() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 3, 400)
    visit = rng.permutation(400)
    router = Router(codes, 3, batch_size=16)
    batches = [batch for part in np.array_split(visit, 7) for batch in router.feed(part)]
    assert all(len(batch.rows) == 16 for batch in batches)
    batches += router.flush()
    for code in range(3):
        own = [batch for batch in batches if batch.code == code]
        assert [batch.number for batch in own] == list(range(len(own)))
        expected = visit[codes[visit] == code]
        for batch in own:
            part = expected[16 * batch.number : 16 * (batch.number + 1)]
            assert batch.rows.tolist() == sorted(part.tolist())
        assert sum(len(batch.rows) for batch in own) == len(expected)


@pytest.mark.parametrize("n_blocks", [9, 16, 40, 41])
def test_a_window_is_a_stretch_of_each_of_eight_lanes(n_blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gmmatch.matching.batches._MOST_BLOCKS", 16)
    n_rows = BLOCK_ROWS * n_blocks - 3
    found = [np.unique(window // BLOCK_ROWS).tolist() for window in windows(n_rows, 4, seed=3)]
    if n_blocks <= 16:
        assert found == [list(range(n_blocks))]
        return
    lanes = [
        list(range(n_blocks))[start : start + -(-n_blocks // 8)]
        for start in range(0, n_blocks, -(-n_blocks // 8))
    ]
    expected = [
        sorted(block for lane in lanes for block in lane[at : at + 2]) for at in range(0, len(lanes[0]), 2)
    ]
    assert found == expected
    order = logical_order(n_rows, 4, seed=3)
    assert not (np.diff(order[:1000]) > 0).all()  # and shuffled


@pytest.mark.parametrize(("n_rows", "k", "size"), [(100, 10, 16), (100, 100, 16), (7, 3, 100), (64, 5, 16)])
def test_quotas_follow_the_rows_that_have_been_seen(n_rows: int, k: int, size: int) -> None:
    chain = Chain(Matching.begin(np.zeros(1), np.zeros(1)), n_rows, k)
    firsts = range(0, n_rows, size)
    found = np.array([chain.quota(first, min(size, n_rows - first)) for first in firsts])
    seen = [min(size * (number + 1), n_rows) for number in range(len(found))]
    assert np.cumsum(found).tolist() == [rows * k // n_rows for rows in seen]
    assert found.sum() == k
    assert len(found) == -(-n_rows // size)


@pytest.mark.parametrize("streams", [1, 2, 3, 7])
def test_chains_are_runs_of_batches_of_nearly_the_same_length(streams: int) -> None:
    numbers = np.arange(-(-1000 // 16))
    chains = chain_of(numbers, 1000, 16, streams)
    assert (np.diff(chains) >= 0).all()
    assert np.unique(chains).tolist() == list(range(streams))
    lengths = np.bincount(chains)
    assert lengths.max() - lengths.min() <= 1
    rows = np.minimum(16, 1000 - 16 * numbers)
    assert chain_sizes(1000, 16, streams).tolist() == np.bincount(chains, rows).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_centred_rows_are_those_of_numpy(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greedy_module, "_TILE_ROWS", 8)
    rng = np.random.default_rng(1)
    rows, center = rng.normal(size=(36, 5)).astype(dtype) + 9, rng.normal(size=5) + 9
    exact = rows.astype(np.float64) - center
    accuracy = {"rtol": 1e-4, "atol": 1e-4} if dtype is np.float32 else {"rtol": 1e-10, "atol": 1e-10}
    ready = prepare(rows, center, 18)
    np.testing.assert_allclose(ready.offsets, exact, **accuracy)
    np.testing.assert_allclose(ready.gram, exact @ exact.T, **accuracy)
    np.testing.assert_allclose(ready.squares, (exact**2).sum(axis=1), **accuracy)
    assert (ready.rows == rows).all()
    offsets, squares = centered(rows, center)
    assert offsets.dtype == dtype
    np.testing.assert_allclose(offsets, exact, **accuracy)
    np.testing.assert_allclose(squares, (exact**2).sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(gram_matrix(exact), exact @ exact.T)


@pytest.mark.parametrize("quota", [1, 30])
def test_rows_whose_squares_leave_float32_are_worked_on_in_float64(quota: int) -> None:
    rows = np.random.default_rng(2).normal(size=(50, 3)).astype(np.float32)
    assert prepare(rows, np.zeros(3), quota).offsets.dtype == np.float32
    assert prepare(rows * np.float32(1e20), np.zeros(3), quota).offsets.dtype == np.float64
    assert (prepare(rows, np.zeros(3), quota).gram is None) == (quota == 1)


def test_the_bound_on_the_rounding_of_products_is_four_roots_of_the_width_in_half_units() -> None:
    for dtype in (np.float32, np.float64):
        for width in (1, 16, 400):
            half_unit = np.finfo(dtype).eps / 2
            assert product_error(np.ones((2, width), dtype)) == pytest.approx(4 * np.sqrt(width) * half_unit)


def test_a_gram_matrix_pays_where_many_are_picked_and_it_fits() -> None:
    assert gram_pays(400, 11, 8)
    assert not gram_pays(400, 10, 8)
    assert gram_pays(100, 100, 8, 80_000)
    assert not gram_pays(100, 100, 8, 79_999)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", ["residual", "projection"])
def test_batches_are_picked_from_as_one_by_one_by_brute_force(dtype: type, step: Step) -> None:
    rng = np.random.default_rng(4)
    sizes, quotas = np.array([40, 1, 33, 40, 17]), np.array([9, 0, 4, 10, 1])
    rows = rng.normal(size=(sizes.sum(), 7)).astype(dtype)
    rows[3] = rows[2]  # a tie, which the first of them wins
    center, start = rng.normal(size=7) / 9, rng.normal(size=7)
    state = Matching.begin(center, start)
    found = match_batches(rows, sizes, quotas, state, step)
    theta, count, first = start.copy(), 0, 0
    for size, quota, (places, scores, distances) in zip(sizes, quotas, found, strict=True):
        offsets = rows[first : first + size].astype(np.float64) - center
        first += size
        left = list(range(size))
        for place, score, distance in zip(places, scores, distances, strict=True):
            gains = offsets[left] @ theta - (0.5 if step == "residual" else 0) * (offsets[left] ** 2).sum(
                axis=1
            )
            best = left.pop(int(gains.argmax()))
            theta, count = theta - offsets[best], count + 1
            assert place == best
            assert score == pytest.approx(np.linalg.norm(start - theta) / count)
            assert distance == pytest.approx(np.linalg.norm(offsets[best]))
        assert len(places) == quota
    np.testing.assert_allclose(state.theta, theta)
    assert state.count == count == quotas.sum()


def test_batches_with_rows_beyond_float32_are_picked_from_all_the_same() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(60, 4)).astype(np.float32)
    rows[25] = 1e18
    sizes, quotas, center = np.full(3, 20), np.array([4, 5, 3]), np.zeros(4)
    ways = [
        match_batches(kind, sizes, quotas, Matching.begin(center, center), "residual")
        for kind in (rows, rows.astype(np.float64))
    ]
    for one, other in zip(*ways, strict=True):
        assert one[0].tolist() == other[0].tolist()


def test_the_running_objective_is_the_distance_of_the_mean_of_the_picks() -> None:
    rng = np.random.default_rng(3)
    width = 40_000  # several blocks of picks
    rows, center = (
        rng.normal(size=(3 * block_rows(width) + 2, width)).astype(np.float32),
        rng.normal(size=width),
    )
    order = rng.permutation(len(rows))
    objectives, distances = running_objective(rows, order, center)
    picked = rows[order].astype(np.float64)
    means = np.cumsum(picked, axis=0) / np.arange(1, len(rows) + 1)[:, None]
    np.testing.assert_allclose(objectives, np.linalg.norm(means - center, axis=1), rtol=1e-9)
    np.testing.assert_allclose(distances, np.linalg.norm(picked - center, axis=1), rtol=1e-9)
    halves = running_objectives(rows, [order[:3], order[3:]], [center, center + 1])
    np.testing.assert_allclose(halves[0][0], objectives[:3])
    np.testing.assert_allclose(halves[1][1], np.linalg.norm(picked[3:] - center - 1, axis=1), rtol=1e-9)


def test_the_nearest_prototype_is_found_and_the_first_of_equals() -> None:
    rng = np.random.default_rng(4)
    rows, points = rng.normal(size=(300, 6)), rng.normal(size=(7, 6))
    gaps = np.linalg.norm(rows[:, None] - points, axis=2)
    assert nearest(rows, points).tolist() == gaps.argmin(axis=1).tolist()
    twice = np.concatenate([points, points])
    assert nearest(rows, twice).max() < 7


def test_what_single_precision_cannot_tell_is_told_in_double() -> None:
    rng = np.random.default_rng(5)
    rows, points = rng.normal(size=(400, 6)) + 3000.0, rng.normal(size=(5, 6)) + 3000.0
    single = rows.astype(np.float32)
    gaps = np.linalg.norm(single.astype(np.float64)[:, None] - points, axis=2)
    assert nearest(single, points).tolist() == gaps.argmin(axis=1).tolist()
    far_apart = np.array([[0.0, 0.0], [100.0, 0.0]])
    assert nearest(np.array([[1.0, 0.0], [99.0, 0.0]], np.float32), far_apart).tolist() == [0, 1]


@pytest.mark.parametrize("tolerance", [1e-3, 0.05, 1.0])
def test_prototypes_move_until_their_moves_are_a_small_share_of_the_variance(tolerance: float) -> None:
    rows = np.random.default_rng(6).uniform(size=(500, 2))
    found, _ = kmeans(rows, 6, np.random.default_rng(1), tolerance=tolerance)
    points = spread_out(rows, 6, np.random.default_rng(1))
    while True:
        owner = np.linalg.norm(rows[:, None] - points, axis=2).argmin(axis=1)
        moved = np.array([rows[owner == code].mean(axis=0) for code in range(6)])
        shift, points = ((moved - points) ** 2).sum(), moved
        if shift <= tolerance * rows.var(axis=0).mean():
            break
    np.testing.assert_allclose(found, points, atol=1e-9)


def test_many_rows_start_from_a_sample_and_move_by_all() -> None:
    rows = np.random.default_rng(8).normal(size=(3000, 2))
    for n_clusters, size in ((6, 1024), (40, 1280)):
        rng = np.random.default_rng(1)
        sample = rows[np.sort(rng.choice(3000, size, replace=False))]
        start = spread_out(sample, n_clusters, rng)
        owner = np.linalg.norm(rows[:, None] - start, axis=2).argmin(axis=1)
        found, codes = kmeans(rows, n_clusters, np.random.default_rng(1), max_iter=1)
        means = [rows[owner == code].mean(axis=0) for code in range(n_clusters)]
        np.testing.assert_allclose(found, means, atol=1e-9)
        assert codes.tolist() == np.linalg.norm(rows[:, None] - found, axis=2).argmin(axis=1).tolist()


def test_a_row_is_drawn_as_a_first_prototype_by_its_squared_distance() -> None:
    rows = np.array([[0.0], [1.0], [3.0]])
    drawn = [spread_out(rows, 2, np.random.default_rng(seed))[:, 0].tolist() for seed in range(600)]
    after_zero = [second for first, second in drawn if first == 0.0]
    assert 0.85 < np.mean(np.array(after_zero) == 3.0) < 0.95  # nine times in ten
    for first in (0.0, 1.0, 3.0):
        assert 0.26 < np.mean([start == first for start, _ in drawn]) < 0.41


def test_first_prototypes_are_distinct_rows_far_ones_more_likely() -> None:
    rows = np.array([[0.0]] * 50 + [[1.0]] * 49 + [[1000.0]])
    for seed in range(10):
        points = spread_out(rows, 5, np.random.default_rng(seed))
        assert sorted(points.ravel().tolist()) == [0.0, 1.0, 1000.0]
        assert 1000.0 in spread_out(rows, 2, np.random.default_rng(seed))


def test_prototypes_are_the_means_of_the_rows_nearest_to_them() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(600, 3)) + 8.0 * rng.normal(size=(5, 3))[np.arange(600) % 5]
    points, codes = kmeans(rows, 5, np.random.default_rng(0), tolerance=0.0)
    for code in range(5):
        np.testing.assert_allclose(points[code], rows[codes == code].mean(axis=0), atol=1e-9)
    assert codes.tolist() == np.linalg.norm(rows[:, None] - points, axis=2).argmin(axis=1).tolist()
    once, _ = kmeans(rows, 5, np.random.default_rng(0), max_iter=1)
    start = spread_out(rows, 5, np.random.default_rng(0))
    owner = nearest(rows, start)
    np.testing.assert_allclose(once, [rows[owner == code].mean(axis=0) for code in range(5)], atol=1e-9)
    loose, _ = kmeans(rows, 5, np.random.default_rng(0), tolerance=1e9)
    np.testing.assert_allclose(loose, once)


def test_centers_of_a_stream_are_certified_and_can_be_saved() -> None:
    rng = np.random.default_rng(6)
    rows, codes = rng.normal(size=(900, 4)), rng.integers(-1, 3, 900)
    found = stream_centers("geometric-median", rows, codes, ["a", "b", "c"], seed=1)
    for code, point in enumerate(found["centers"]):
        epsilon = found["epsilons"][code]
        assert epsilon == pytest.approx(certify(rows[codes == code], [point])[0].epsilon, abs=1e-9)
        assert epsilon <= 1e-6
    assert found["reads"] == 1  # all rows into memory
    means = stream_centers("mean", rows, codes, ["a", "b", "c"], seed=1)
    np.testing.assert_allclose(means["centers"][1], rows[codes == 1].mean(axis=0))
    assert (means["reads"], means["epsilons"].tolist()) == (1, [0.0, 0.0, 0.0])
    known = [(point, None) for point in found["centers"]]
    given = stream_centers("mean", rows, codes, ["a", "b", "c"], 1, known)
    assert given["reads"] == 0
    assert np.isnan(given["epsilons"]).all()
    assert stream_centers({"a": np.ones(4)}, rows, np.zeros(900, int), ["a"], 1)["reads"] == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_medians_of_more_rows_than_a_window_start_from_a_sample(dtype: type) -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(70_000, 2)).astype(dtype)
    codes = np.zeros(70_000, int)
    codes[::7] = -1
    codes[5] = 1  # a class of one row, which the sample may lack
    found = stream_centers("geometric-median", rows, codes, ["a", "b"], seed=1)
    assert np.nanmax(found["epsilons"]) <= 1e-3
    np.testing.assert_allclose(found["centers"][1], rows[5], atol=1e-6)
    assert 1 <= found["reads"] <= 12
    assert np.linalg.norm(found["centers"][0]) < 0.05


def test_medians_of_a_sample_start_the_search_and_all_rows_stand_in_for_a_missing_class() -> None:
    rng = np.random.default_rng(9)
    codes = rng.choice([-1, 0, 2], 600)
    rows = rng.normal(size=(600, 3)) + 5.0 * codes[:, None]
    rows[codes < 0] = 1e6  # takes no part
    starts = _sample_medians(rows, codes, 4)
    everyone = gmmatch.geometric_median(rows[codes >= 0]).point
    for code in range(4):
        expected = gmmatch.geometric_median(rows[codes == code]).point if code in (0, 2) else everyone
        np.testing.assert_allclose(starts[code], expected, atol=0.2)
    full = _sample_medians(rows, np.where(codes == 2, 1, codes), 2)
    np.testing.assert_array_equal(full, starts[[0, 2]])


@pytest.mark.parametrize(("sample", "count"), [(0.25, 50), (30, 30), (10**6, 200)])
def test_a_sampled_median_is_that_of_so_many_rows_and_certified_on_all(sample: float, count: int) -> None:
    rng = np.random.default_rng(10)
    rows, codes = rng.normal(size=(400, 3)), np.arange(400) % 2
    groups = [(np.flatnonzero(codes == code), (3, code)) for code in range(2)]
    for code, (point, epsilon) in enumerate(sampled_medians(rows, groups, codes, sample)):
        members = groups[code][0]
        drawn = np.random.default_rng((3, code)).choice(members, count, replace=False)
        np.testing.assert_allclose(point, gmmatch.geometric_median(rows[np.sort(drawn)]).point, atol=1e-9)
        assert epsilon == pytest.approx(certify(rows[members], [point])[0].epsilon)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["numbers", "few values", "far off", "copies", "large", "tiny", "equal"])
def test_rows_of_one_number_have_the_nearest_point(kind, dtype):
    rng = np.random.default_rng(0)
    rows, points = rng.normal(size=(500, 1)), rng.normal(size=(120, 1))
    if kind == "few values":
        rows, points = rng.integers(0, 9, (500, 1)).astype(float), rng.integers(0, 18, (120, 1)) / 2
    elif kind == "far off":
        rows, points = rows + 1e6, points + 1e6
    elif kind == "copies":
        points = np.repeat(rows[:40], 3, axis=0)
    elif kind == "equal":
        rows[:], points[:] = 3.0, 3.0
    scale = {"large": 1e15, "tiny": 1e-15}.get(kind, 1.0)
    rows, points = (scale * rows).astype(dtype), scale * points
    apart = np.abs(rows.astype(float) - points.T)
    chosen = apart[np.arange(len(rows)), nearest(rows, points)]
    rounding = 4 * np.sqrt(np.finfo(float).eps) * max(np.abs(rows).max(), np.abs(points).max())
    assert (chosen <= apart.min(axis=1) + rounding).all()


def test_tiny_numbers_are_spread_out():
    numbers = 1e-160 * np.random.default_rng(0).normal(size=(1000, 1))
    assert len(np.unique(spread_out(numbers, 50, np.random.default_rng(0)))) <= 50


def improve(rows: Any, points: Any) -> Any:
    """Return the means of the rows nearest to each point, of all rows anew; one without rows stays."""
    sums, sizes, step = np.zeros_like(points), np.zeros(len(points)), 1024
    step = max(step, block_rows(max(rows.shape[1], len(points))))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        more, counts = kernels.group_sums(part, nearest(part, points), len(points))
        sums, sizes = sums + more, sizes + counts
    filled = sizes > 0
    return np.where(filled[:, None], sums / np.where(filled, sizes, 1.0)[:, None], points)


@pytest.mark.parametrize("kind", ["cloud", "whole numbers", "copies", "one feature", "tiny", "huge"])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_rounds_of_k_means_are_those_of_brute_force(kind, precision):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(1300, 1 if kind == "one feature" else 7))
    if kind == "whole numbers":
        rows = rng.integers(0, 3, size=(1300, 4)).astype(float)
    if kind == "copies":
        rows[:600] = rows[:20][rng.integers(0, 20, 600)]
    rows = (rows * {"tiny": 1e-30, "huge": 1e18}.get(kind, 1.0)).astype(precision)
    for count in (1, 30, 300):
        points = spread_out(rows, count, np.random.default_rng(0))
        rounds = Rounds(rows, points)
        for _ in range(12):
            before, points = points, improve(rows, points)
            assert rounds.go() == (not np.array_equal(points, before))
            np.testing.assert_array_equal(rounds.prototypes, points)


def test_points_are_drawn_by_their_squared_distance_to_those_before():
    rows = np.random.default_rng(4).normal(size=(700, 9)).astype(np.float32)
    rng = np.random.default_rng(5)
    expected = [int(rng.integers(700))]
    for _ in range(99):
        gaps = ((rows[:, None].astype(float) - rows[expected]) ** 2).sum(axis=2).min(axis=1)
        expected.append(int(np.searchsorted(np.cumsum(gaps), rng.random() * gaps.sum(), side="right")))
    np.testing.assert_array_equal(spread_out(rows, 100, np.random.default_rng(5)), rows[expected])


def test_offsets_of_single_precision_lose_nothing_of_the_centre() -> None:
    """The centre has digits that rows of float32 cannot have."""
    made = prepare(np.ones((1000, 1), np.float32), np.array([1.0 + 1e-9]), 100)
    assert made.gram is not None
    np.testing.assert_allclose(made.offsets, -1e-9, rtol=1e-6)


@pytest.mark.parametrize(
    ("lift", "width", "features"), [("off", 2, None), ("auto", 2, 512), ("auto", 40, None), (8, 40, 8)]
)
def test_fourier_features_are_for_classes_that_spread_in_few_directions(
    lift: str | int, width: int, features: int | None
) -> None:
    codes = np.arange(300) % 2
    rows = np.random.default_rng(0).normal(size=(300, width))
    rows[:, 0] += 50.0 * codes  # between the classes there is one direction, whatever they are like
    verdict: Any = SimpleNamespace(
        keys=row_keys(rows), tiers=np.zeros(300, np.int8), rules=SimpleNamespace(origin=np.zeros(width))
    )
    found = choose_fourier_features(rows, codes, verdict, lift, 0)
    assert (found and found.n_features) == features
