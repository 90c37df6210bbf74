import numpy as np
import pytest

import gmmatch
from gmmatch.compute.blocks import block_rows
from gmmatch.errors import GmmatchError
from gmmatch.location import geometric_median as package_level
from gmmatch.location.geometric_median import GroupSums, group_medians, partial_sums

KINDS = ("gaussian", "heavy tails", "duplicates", "collinear", "far cluster", "far everywhere")


def problem(number):
    """One of the 200 problems: 2 to 1,000 dimensions, every kind of difficulty in turn."""
    rng = np.random.default_rng(number)
    d = int(rng.choice([2, 3, 5, 10, 50, 200, 1000]))
    n = int(rng.choice([3, 4, 5, 10, 51, 120]))
    kind = KINDS[number % len(KINDS)]
    rows = rng.standard_normal((n, d))
    bad = int(0.45 * n)
    if kind == "heavy tails":
        rows = rng.standard_t(1.1, size=(n, d))
    elif kind == "duplicates":
        rows = np.repeat(rows[: max(1, n // 3)], 3, axis=0)
    elif kind == "collinear":
        rows = rng.standard_normal((n, 1)) * rng.standard_normal((1, d)) + rng.standard_normal(d)
    elif kind == "far cluster":
        rows[:bad] = 1e6 * rng.standard_normal(d) + rng.standard_normal((bad, d))
    elif kind == "far everywhere":
        rows[:bad] *= 1e6
    return kind, rows


def objective(point, rows):
    return np.sqrt(((rows - point) ** 2).sum(axis=1)).sum()


def smallest_objective(rows):
    """Independent optimum: every row as a candidate, and damped Newton in the rows' span."""
    origin = np.median(rows, axis=0)
    basis = np.linalg.svd(rows - origin, full_matrices=False)[2]
    flat = (rows - origin) @ basis.T
    # What the basis leaves out is the same for every point in the affine hull: nothing.
    best = min(objective(row, flat) for row in flat)
    for start in (np.median(flat, axis=0), flat.mean(axis=0)):
        point = start
        for _ in range(200):
            offsets = point - flat
            distances = np.sqrt((offsets**2).sum(axis=1))
            if (distances < 1e-300).any():
                break
            units = offsets / distances[:, None]
            gradient = units.sum(axis=0)
            inverse = 1 / distances
            hessian = np.eye(len(point)) * inverse.sum() - (units * inverse[:, None]).T @ units
            move = -np.linalg.lstsq(hessian, gradient, rcond=1e-13)[0]
            value, step = objective(point, flat), 1.0
            while (
                objective(point + step * move, flat) > value + 1e-4 * step * gradient @ move and step > 1e-12
            ):
                step /= 2
            point = point + step * move
            if value - objective(point, flat) <= 1e-15 * value:
                break
        best = min(best, objective(point, flat))
    return best


def test_true_excess_never_exceeds_the_certificate_on_200_problems():
    for number in range(200):
        kind, rows = problem(number)
        median = gmmatch.geometric_median(rows)
        assert median.converged, f"problem {number} ({kind}, {rows.shape})"
        assert median.epsilon <= 1e-6
        assert median.objective == pytest.approx(objective(median.point, rows), rel=1e-12)
        least = smallest_objective(rows)
        excess = objective(median.point, rows) - least
        assert excess <= (median.epsilon + 1e-12) * least, f"problem {number} ({kind}, {rows.shape})"


@pytest.mark.parametrize("epsilon", [1e-1, 1e-3, 1e-9])
def test_stops_on_the_certificate_asked_for(epsilon):
    rows = np.random.default_rng(1).standard_t(2, size=(300, 4))
    median = gmmatch.geometric_median(rows, epsilon=epsilon)
    assert median.epsilon <= epsilon
    assert objective(median.point, rows) / smallest_objective(rows) - 1 <= median.epsilon + 1e-12


def test_certificate_is_not_vacuous_far_from_the_optimum():
    rows = np.random.default_rng(2).normal(size=(200, 3))
    loose = gmmatch.geometric_median(rows, max_iter=1, epsilon=1e-12)
    assert not loose.converged
    assert loose.n_iter == 1
    excess = objective(loose.point, rows) / smallest_objective(rows) - 1
    assert 0 < excess <= loose.epsilon < 1


def test_closed_forms():
    square = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    np.testing.assert_allclose(gmmatch.geometric_median(square).point, [0.5, 0.5], atol=1e-9)
    line = np.array([[0.0], [1], [2], [50], [1000]])
    np.testing.assert_allclose(gmmatch.geometric_median(line).point, [2.0], atol=1e-4)
    obtuse = np.array([[-5.0, 0], [5, 0], [0, 1]])  # an angle beyond 120 degrees: the vertex itself
    np.testing.assert_allclose(gmmatch.geometric_median(obtuse).point, [0, 1], atol=1e-5)
    one = gmmatch.geometric_median([[3.0, 4.0]])
    assert one.point.tolist() == [3.0, 4.0]
    assert one.objective == 0.0
    same = gmmatch.geometric_median(np.full((7, 3), 0.1))
    assert same.objective <= 1e-15


def test_equilateral_triangle_gives_the_fermat_point():
    corners = np.array([[0.0, 0], [1, 0], [0.5, np.sqrt(3) / 2]])
    np.testing.assert_allclose(gmmatch.geometric_median(corners).point, corners.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.4, 0.45, 0.49])
@pytest.mark.parametrize("d", [2, 32, 256])
def test_stays_inside_the_papers_lemma_while_rows_move_to_a_billion(share, d):
    rng = np.random.default_rng(d)
    rows = rng.normal(size=(600, d))
    bad = int(share * len(rows))
    clean = rows[bad:].copy()
    rows[:bad] = 1e9 * rng.normal(size=d) / np.sqrt(d)
    median = gmmatch.geometric_median(rows)
    assert median.converged
    spread = ((clean - clean.mean(axis=0)) ** 2).sum()
    bound = 8 * len(clean) / (len(clean) - bad) ** 2 * spread
    assert ((median.point - clean.mean(axis=0)) ** 2).sum() <= bound


def test_weights_mean_repetition():
    rng = np.random.default_rng(3)
    rows, counts = rng.normal(size=(40, 5)), rng.integers(0, 4, 40)
    counts[0] = 3
    weighted = gmmatch.geometric_median(rows, weights=counts, epsilon=1e-10)
    repeated = gmmatch.geometric_median(np.repeat(rows, counts, axis=0), epsilon=1e-10)
    np.testing.assert_allclose(weighted.point, repeated.point, atol=1e-6)
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-9)


def test_translation_rotation_scale_and_order():
    rng = np.random.default_rng(4)
    rows = rng.standard_t(3, size=(500, 12))
    point = gmmatch.geometric_median(rows, epsilon=1e-10).point
    rotation = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    moved = gmmatch.geometric_median(7.5 * rows @ rotation.T + 100.0, epsilon=1e-10).point
    np.testing.assert_allclose(moved, 7.5 * rotation @ point + 100.0, atol=1e-7)
    shuffled = gmmatch.geometric_median(rows[rng.permutation(500)], epsilon=1e-10).point
    np.testing.assert_allclose(shuffled, point, atol=1e-12)


@pytest.mark.parametrize("power", [-1000, -660, -531, 430, 460])
def test_a_power_of_two_changes_the_scale_of_the_answer_alone(power):
    rows = np.random.default_rng(5).normal(size=(90, 4)) + 1.0
    plain = gmmatch.geometric_median(rows)
    scaled = gmmatch.geometric_median(np.ldexp(rows, power))
    assert (scaled.point == np.ldexp(plain.point, power)).all()
    assert scaled.objective == np.ldexp(plain.objective, power)
    assert (scaled.epsilon, scaled.n_iter) == (plain.epsilon, plain.n_iter)


@pytest.mark.parametrize("power", [-1000, -565, 665, 1000])
@pytest.mark.parametrize("sample", [None, 40])
def test_only_the_ratios_of_the_weights_matter(power, sample):
    rng = np.random.default_rng(6)
    rows, weights = rng.normal(size=(90, 4)), rng.uniform(1, 2, 90)
    plain = gmmatch.geometric_median(rows, weights=weights, sample=sample)
    scaled = gmmatch.geometric_median(rows, weights=np.ldexp(weights, power), sample=sample)
    assert (scaled.point == plain.point).all()
    assert scaled.epsilon == plain.epsilon
    assert scaled.objective == np.ldexp(plain.objective, power)


def test_a_sample_is_certified_on_all_rows():
    rows = np.random.default_rng(5).normal(size=(4000, 20))
    sampled = gmmatch.geometric_median(rows, sample=0.25, random_state=1)
    full = gmmatch.geometric_median(rows)
    assert sampled.objective == pytest.approx(objective(sampled.point, rows), rel=1e-12)
    excess = sampled.objective / full.objective - 1
    assert 1e-6 < excess <= sampled.epsilon < 0.2
    again = gmmatch.geometric_median(rows, sample=1000, random_state=1)
    assert (again.point == sampled.point).all()
    other = gmmatch.geometric_median(rows, sample=0.25, random_state=2)
    assert (other.point != sampled.point).any()


def test_many_groups_at_once_equal_each_on_its_own():
    rng = np.random.default_rng(6)
    codes = rng.integers(0, 7, 900)
    rows = rng.normal(size=(900, 9)) + codes[:, None]
    together = group_medians(rows, codes, 7, epsilon=1e-10)
    for code, median in enumerate(together):
        alone = gmmatch.geometric_median(rows[codes == code], epsilon=1e-10)
        np.testing.assert_allclose(median.point, alone.point, atol=1e-8)
        assert median.epsilon <= 1e-10


def test_sums_of_parts_are_the_sums_of_the_whole():
    rng = np.random.default_rng(7)
    rows, codes = rng.normal(size=(64, 5)), np.tile([0, 2, 2, 1], 16)
    rows[5], rows[9] = rows[1], rows[1]
    points = rng.normal(size=(3, 5))
    points[2] = rows[1]
    whole = partial_sums(rows, points, codes)
    total = GroupSums.zeros(3, 5)
    for part in np.array_split(np.arange(64), 5):
        total.add(partial_sums(rows[part], points, codes[part]))
    for name in ("numbers", "pull", "nearest_pull"):
        np.testing.assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-12, atol=1e-12)
    assert whole.numbers[2, 3] >= 1


def test_a_memory_map_gives_the_same_bits(tmp_path):
    rows = np.random.default_rng(8).normal(size=(3 * block_rows(600) + 17, 600)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert (gmmatch.geometric_median(rows).point == gmmatch.geometric_median(mapped).point).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilon": 0}, "epsilon must be a number greater than 0; got 0"),
        ({"epsilon": "small"}, "epsilon must be a number greater than 0; got 'small'"),
        ({"weights": [1.0]}, "expected (3,)"),
        ({"weights": [-1.0, 1, 1]}, "none negative"),
        ({"weights": ["a", "b", "c"]}, "must be numbers"),
        ({"sample": 4}, "4 rows, but there are only 3"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1; got 0"),
    ],
)
def test_wrong_arguments_get_one_sentence(arguments, words):
    with pytest.raises(GmmatchError) as caught:
        gmmatch.geometric_median(np.eye(3), **arguments)
    assert words in str(caught.value)
    assert isinstance(caught.value, (ValueError, TypeError))


def test_public_name_is_one_function():
    assert gmmatch.geometric_median is package_level
