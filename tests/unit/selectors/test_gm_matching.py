"""The method against brute force, and the paper's theorem as measurements."""

import numpy as np
import pytest
from sklearn.base import clone

import gmmatch
from gmmatch.errors import GmmatchError
from gmmatch.matching import greedy
from gmmatch.matching.batches import windows
from gmmatch.matching.features import unit_rows
from gmmatch.matching.greedy import Matching, match


def brute_force(rows, center, k, step, theta):
    """The method as written, one row at a time, in the given coordinates."""
    left, picks = list(range(len(rows))), []
    theta = np.array(theta, dtype=float)
    for _ in range(k):
        if step == "projection":
            worth = [float(np.dot(theta, rows[row])) for row in left]
        else:
            worth = [-float(np.sum((theta - (rows[row] - center)) ** 2)) for row in left]
        pick = left[int(np.argmax(worth))]
        theta = theta + center - rows[pick]
        picks.append(pick)
        left.remove(pick)
    return picks, theta


def thetas(step, center):
    return np.zeros_like(center) if step == "residual" else center.copy()


@pytest.mark.parametrize("step", ["residual", "projection"])
@pytest.mark.parametrize("d", [2, 17])
def test_picks_equal_brute_force(step, d):
    rows = np.random.default_rng(d).normal(size=(150, d)) + 3.0
    selection = gmmatch.select(rows, keep=60, step=step, guard="off")
    center = gmmatch.geometric_median(rows).point
    expected, _ = brute_force(rows, center, 60, step, thetas(step, center))
    assert selection.indices.tolist() == expected


@pytest.mark.parametrize("step", ["residual", "projection"])
def test_picks_by_class_equal_brute_force_in_each_class(step):
    rng = np.random.default_rng(0)
    labels = np.array(["cat", "dog", "eel"])[rng.integers(0, 3, 200)]
    rows = rng.normal(size=(200, 6)) + (labels == "dog")[:, None]
    selection = gmmatch.select(rows, keep=0.3, labels=labels, step=step, guard="off")
    assert len(selection) == 60
    for name in ("cat", "dog", "eel"):
        members = np.flatnonzero(labels == name)
        picked = selection.indices[selection.labels == name]
        center = gmmatch.geometric_median(rows[members]).point
        expected, _ = brute_force(rows[members], center, len(picked), step, thetas(step, center))
        assert picked.tolist() == members[expected].tolist()


@pytest.mark.parametrize("step", ["residual", "projection"])
@pytest.mark.parametrize("labelled", [False, True])
def test_picks_in_batches_equal_brute_force_with_theta_carried(step, labelled):
    rng = np.random.default_rng(3)
    n, k, size = 400, 100, 64
    rows = rng.normal(size=(n, 5))
    labels = rng.integers(0, 2, n) if labelled else np.zeros(n, dtype=int)
    selection = gmmatch.select(
        rows,
        keep=k,
        labels=labels if labelled else None,
        step=step,
        batch_size=size,
        random_state=7,
        guard="off",
    )
    order = np.concatenate(list(windows(n, 5, seed=7)))
    for label in np.unique(labels):
        members = order[labels[order] == label]
        picked = selection.indices[labels[selection.indices] == label]
        center = gmmatch.geometric_median(rows[labels == label]).point
        theta, expected = thetas(step, center), []
        for start in range(0, len(members), size):
            batch, before = np.sort(members[start : start + size]), start * len(picked) // len(members)
            quota = (start + len(batch)) * len(picked) // len(members) - before
            picks, theta = brute_force(rows[batch], center, quota, step, theta)
            expected += batch[picks].tolist()
        assert picked.tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", ["residual", "projection"])
def test_a_gram_matrix_and_a_product_per_pick_give_the_same(step, dtype):
    rng = np.random.default_rng(1)
    rows = (rng.normal(size=(700, 30)) @ rng.normal(size=(30, 200)) + 5.0).astype(dtype)
    center = rows.mean(axis=0, dtype=float)
    results = []
    for gram_bytes in (0, 1 << 30):
        state = Matching.begin(center, thetas(step, center))
        results.append(match(rows, 400, state, step, gram_bytes)[0].tolist())
    assert results[0] == results[1]


def test_float32_picks_equal_brute_force_in_float64():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(300, 40)).astype(np.float32)
    center = gmmatch.geometric_median(rows).point
    expected, _ = brute_force(rows.astype(float), center, 250, "residual", np.zeros(40))
    assert gmmatch.select(rows, keep=250, guard="off").indices.tolist() == expected


def test_the_smallest_row_wins_exact_ties():
    rows = np.repeat(np.random.default_rng(4).normal(size=(20, 8)).astype(np.float32), 5, axis=0)
    picks = gmmatch.select(rows, keep=100, guard="off").indices
    for copy in range(20):
        same = picks[picks // 5 == copy]
        assert same.tolist() == sorted(same.tolist())


def test_near_ties_are_decided_by_the_rows_not_by_rounding(monkeypatch):
    close_calls = []
    loop = greedy.greedy

    def counted(*given):
        *found, close = loop(*given)
        close_calls.append(close)
        return *found, close

    monkeypatch.setattr(greedy, "greedy", counted)
    rows = np.random.default_rng(5).normal(size=(50, 64)).astype(np.float32)
    gmmatch.select(rows, keep=25, guard="off")
    assert sum(close_calls) == 0
    gmmatch.select(np.repeat(rows, 2, axis=0), keep=50, guard="off")
    assert sum(close_calls) >= 25


def test_rows_closer_than_float32_can_tell_are_picked_as_in_float64():
    rng = np.random.default_rng(8)
    rows = np.repeat(rng.normal(size=(150, 48)).astype(np.float32), 3, axis=0)
    rows *= 1 + np.tile(rng.integers(-2, 3, 150).astype(np.float32), 3)[:, None] * np.float32(2e-7)
    center = np.zeros(48)
    gram = rows @ rows.T
    scores, rounded = -gram.diagonal() / 2, []
    for _ in range(300):
        rounded.append(int(scores.argmax()))
        scores[rounded[-1]] = -np.inf
        scores = scores - gram[rounded[-1]]
    expected, _ = brute_force(rows.astype(float), center, 300, "residual", center)
    assert rounded != expected
    assert gmmatch.select(rows, keep=300, center=center, guard="off").indices.tolist() == expected


def test_outliers_of_any_size_do_no_harm_in_float32():
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(300, 16)).astype(np.float32)
    rows[::3] = 1e25 * rng.normal(size=(100, 16))
    picks = gmmatch.select(rows, keep=60, guard="off").indices
    assert (picks % 3 != 0).all()


def slope(values):
    k = np.arange(1, len(values) + 1)
    late = k >= 20
    return np.polyfit(np.log(k[late]), np.log(values[late]), 1)[0]


def test_the_error_falls_like_one_over_k_and_randoms_like_its_root():
    rows = np.random.default_rng(7).normal(size=(20_000, 16))
    ours = gmmatch.select(rows, keep=1000, guard="off")
    assert slope(ours.scores) <= -0.9
    paper = gmmatch.select(rows, keep=1000, method="gm-matching-paper")
    assert slope(paper.scores) <= -0.9
    randoms = [
        gmmatch.select(rows, keep=1000, method="random", center="mean", random_state=seed).scores
        for seed in range(20)
    ]
    assert -0.6 <= slope(np.mean(randoms, axis=0)) <= -0.4


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.45, 0.49])
@pytest.mark.parametrize("step", ["residual", "projection"])
def test_the_subsets_mean_stays_inside_the_papers_bound(step, share):
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(1000, 32))
    bad = int(share * len(rows))
    clean = rows[bad:].copy()
    rows[:bad] = 1e9 * rng.normal(size=32)
    selection = gmmatch.select(rows, keep=100, step=step, guard="off")
    error = np.linalg.norm(rows[selection.indices].mean(axis=0) - clean.mean(axis=0))
    spread = ((clean - clean.mean(axis=0)) ** 2).sum()
    neighbourhood = np.sqrt(8 * len(clean) / (len(clean) - bad) ** 2 * spread)
    if step == "residual":
        assert error <= neighbourhood
    else:  # the paper's bound allows r / (kappa k) beside, and its first picks are the far rows
        assert error <= neighbourhood + 2 * np.linalg.norm(rows, axis=1).max() / len(selection)


def test_scores_distances_and_objective_are_what_they_say():
    rng = np.random.default_rng(9)
    rows, labels = rng.normal(size=(300, 7)), rng.integers(0, 3, 300)
    estimator = gmmatch.GMMatching(keep=60, guard="off").fit(rows, labels)
    selection = estimator.selection_
    finals, weights = [], []
    for label, center in zip(estimator.classes_, estimator.centers_, strict=True):
        np.testing.assert_array_equal(center, gmmatch.geometric_median(rows[labels == label]).point)
        own = labels[selection.indices] == label
        picked = rows[selection.indices[own]]
        means = np.cumsum(picked, axis=0) / np.arange(1, len(picked) + 1)[:, None]
        expected = np.linalg.norm(means - center, axis=1)
        np.testing.assert_allclose(selection.scores[own], expected, atol=1e-10)
        np.testing.assert_allclose(
            selection.distances[own], np.linalg.norm(picked - center, axis=1), atol=1e-10
        )
        finals.append(expected[-1])
        weights.append(len(picked))
    assert selection.objective == pytest.approx(np.average(finals, weights=weights), abs=1e-10)
    assert selection.epsilon <= 1e-6


def test_a_smaller_budget_is_a_prefix_class_by_class():
    rng = np.random.default_rng(10)
    rows, labels = rng.normal(size=(300, 5)), rng.integers(0, 4, 300)
    small = gmmatch.select(rows, keep=40, labels=labels, guard="off")
    large = gmmatch.select(rows, keep=150, labels=labels, guard="off")
    for label in range(4):
        few, many = (s.indices[s.labels == label].tolist() for s in (small, large))
        assert many[: len(few)] == few


def test_translation_rotation_scale_and_order_leave_the_picks():
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(400, 10))
    picks = gmmatch.select(rows, keep=100, guard="off").indices
    rotation = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    moved = gmmatch.select(3.0 * rows @ rotation + 11.0, keep=100, guard="off").indices
    assert moved.tolist() == picks.tolist()
    order = rng.permutation(400)
    shuffled = gmmatch.select(rows[order], keep=100, guard="off").indices
    assert order[shuffled].tolist() == picks.tolist()


def test_given_centres_and_starts():
    rng = np.random.default_rng(12)
    rows, labels = rng.normal(size=(120, 4)), rng.integers(0, 2, 120)
    target = np.array([0.5, 0, 0, 0])
    picks = gmmatch.select(rows, keep=30, center=target, guard="off").indices
    assert picks.tolist() == brute_force(rows, target, 30, "residual", np.zeros(4))[0]
    start = np.array([1.0, -1, 2, 0])
    picks = gmmatch.select(rows, keep=30, center="mean", start=start, guard="off").indices
    assert picks.tolist() == brute_force(rows, rows.mean(axis=0), 30, "residual", start)[0]
    centers = {0: target, 1: -target}
    by_class = gmmatch.select(rows, keep=30, labels=labels, center=centers, guard="off")
    for label in (0, 1):
        members = np.flatnonzero(labels == label)
        own = by_class.indices[by_class.labels == label]
        expected = brute_force(rows[members], centers[label], len(own), "residual", np.zeros(4))[0]
        assert own.tolist() == members[expected].tolist()


def test_unit_normalization_is_selection_on_unit_rows():
    rng = np.random.default_rng(13)
    rows = rng.normal(size=(150, 6)) * rng.uniform(0.1, 10, size=(150, 1))
    rows[3] = 0.0
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths == 0, 1, lengths)
    picks = gmmatch.select(rows, keep=50, normalize="unit", guard="off").indices
    assert picks.tolist() == gmmatch.select(unit, keep=50, guard="off").indices.tolist()


def test_the_papers_method_is_the_projection_from_the_centre():
    rows = np.random.default_rng(14).normal(size=(200, 5)) + 1.0
    paper = gmmatch.select(rows, keep=40, method="gm-matching-paper")
    by_hand = gmmatch.select(rows, keep=40, step="projection", start="center", guard="off")
    assert paper.indices.tolist() == by_hand.indices.tolist()
    assert (paper.method, by_hand.method) == ("gm-matching-paper", "gm-matching")


def test_the_published_codes_variant_projects_unit_rows_from_a_random_start():
    rows = np.random.default_rng(15).normal(size=(200, 5)) + 1.0
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    firsts = set()
    for seed in range(5):
        found = gmmatch.select(rows, keep=40, method="gm-matching-authors", random_state=seed)
        start = np.random.default_rng([seed, 0, 1]).normal(size=5)
        center = gmmatch.geometric_median(unit).point
        expected = brute_force(unit, center, 40, "projection", start / np.linalg.norm(start))[0]
        assert found.indices.tolist() == expected
        firsts.add(int(found.indices[0]))
    assert len(firsts) > 1


def test_a_random_start_is_one_per_class_and_the_same_in_batches():
    rng = np.random.default_rng(16)
    rows, labels = rng.normal(size=(200, 5)), np.repeat([0, 1], 100)
    whole = gmmatch.select(rows, keep=20, labels=labels, method="gm-matching-authors", batch_size=None)
    batches = gmmatch.select(rows, keep=20, labels=labels, method="gm-matching-authors", batch_size=100)
    assert whole.indices[:2].tolist() == batches.indices[:2].tolist()


def test_more_chains_than_batches_are_as_many_as_batches():
    rows = np.random.default_rng(17).normal(size=(200, 5))
    many, few = (
        gmmatch.select(rows, keep=40, guard="off", batch_size=8, streams=streams) for streams in (10**7, 25)
    )
    assert many.indices.tolist() == few.indices.tolist()
    assert many.info.chains == 25


def test_follows_scikit_learn_conventions():
    rng = np.random.default_rng(15)
    rows, labels = rng.normal(size=(90, 3)), rng.integers(0, 3, 90)
    estimator = gmmatch.GMMatching(keep=0.2, batch_size=32, random_state=5)
    twin = clone(estimator)
    assert twin.get_params() == estimator.get_params()
    kept_rows, kept_labels = estimator.fit_resample(rows, labels)
    assert (kept_rows == rows[estimator.sample_indices_]).all()
    assert (kept_labels == labels[estimator.sample_indices_]).all()
    assert twin.set_params(keep=9).fit(rows, labels).sample_indices_.shape == (9,)
    assert estimator.n_features_in_ == 3
    assert estimator.centers_.shape == (3, 3)


def test_windows_hold_every_row_once_from_all_over_the_file():
    order = np.concatenate(list(windows(200_000, 300, seed=1)))
    assert (np.sort(order) == np.arange(200_000)).all()
    # Neighbours in the file are spread: a window mixes blocks from all over it.
    assert np.corrcoef(order[:-1], order[1:])[0, 1] < 0.05
    assert (np.concatenate(list(windows(200_000, 300, seed=2))) != order).any()


def test_carried_batches_stay_close_to_the_centre():
    rows = np.random.default_rng(16).normal(size=(6000, 64))
    random = gmmatch.select(rows, keep=600, method="random", center="geometric-median").objective
    carried = gmmatch.select(rows, keep=600, batch_size=200, guard="off").objective
    exact = gmmatch.select(rows, keep=600, guard="off").objective
    assert exact <= carried <= random / 5


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"step": "residul"},
            "step must be 'teaching', 'residual' or 'projection'; got 'residul' (did you mean 'residual'?)",
        ),
        ({"center": "medoid"}, "center must be"),
        ({"center": np.zeros(4)}, "center has shape (4,); expected (3,)"),
        ({"center": {7: np.zeros(3)}}, "center has no entry for class"),
        ({"center": object()}, "center must be a name"),
        ({"start": "centre"}, "did you mean 'center'?"),
        ({"start": np.zeros(2)}, "start must be a finite vector of shape (3,); got (2,)"),
        ({"normalize": "l2"}, "normalize must be 'none' or 'unit'; got 'l2'"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1; got 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number of at least 1; got 2.5"),
        ({"guard": "on"}, "guard must be 'auto' or 'off'; got 'on'"),
        ({"random_state": -1}, "random_state must be"),
        ({"bach_size": 5}, "has no parameter 'bach_size' (did you mean 'batch_size'?)"),
    ],
)
def test_wrong_parameters_get_one_sentence(params, words):
    with pytest.raises(GmmatchError) as caught:
        gmmatch.select(np.random.default_rng(0).normal(size=(10, 3)), keep=2, **params)
    assert words in str(caught.value)
    assert isinstance(caught.value, (ValueError, TypeError))


def test_rows_of_zeros_keep_their_place_when_scaled():
    scaled = unit_rows(np.array([[0.0, 0.0], [0.0, -2.0]]))
    assert scaled.tolist() == [[0.0, 0.0], [0.0, -1.0]]


@pytest.mark.parametrize("batch_size", [None, 100])
def test_rows_of_unit_length_are_measured_as_such_with_a_guard_too(batch_size):
    rng = np.random.default_rng(0)
    rows = 5 * rng.normal(size=(400, 8)) + 3
    labels = np.arange(400) % 2
    estimator = gmmatch.GMMatching(40, normalize="unit", guard="auto", batch_size=batch_size).fit(
        rows, labels
    )
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for label, center in zip(estimator.classes_, estimator.centers_, strict=True):
        mine = labels[estimator.sample_indices_] == label
        kept = unit[estimator.sample_indices_[mine]]
        np.testing.assert_allclose(estimator.distances_[mine], np.linalg.norm(kept - center, axis=1))
        assert np.linalg.norm(kept.mean(axis=0) - center) < 0.1


@pytest.mark.parametrize("batch_size", [None, 64])
def test_the_target_is_the_mean_of_the_trusted_rows_where_labels_were_judged(batch_size):
    rng = np.random.default_rng(21)
    labels = rng.integers(0, 3, 600)
    rows = np.exp(rng.normal(size=(600, 6))) + 4.0 * np.eye(6)[labels]  # skewed: mean and median differ
    labels[:60] = (labels[:60] + 1) % 3
    estimator = gmmatch.GMMatching(keep=90, batch_size=batch_size).fit(rows, labels)
    assert (estimator.selection_.info.center, estimator.selection_.epsilon) == ("mean", 0.0)
    for label, center in zip(estimator.classes_, estimator.centers_, strict=True):
        trusted = rows[(labels == label) & (estimator.tiers_ == 0)]
        np.testing.assert_allclose(center, trusted.mean(axis=0), rtol=1e-6)
    named = gmmatch.GMMatching(keep=90, batch_size=batch_size, center="mean").fit(rows, labels)
    np.testing.assert_array_equal(estimator.sample_indices_, named.sample_indices_)


@pytest.mark.parametrize(
    "settings",
    [{"guard": "off"}, {"guard": "auto", "by_class": False, "clusters": "off"}, {"normalize": "unit"}],
)
def test_the_target_is_the_geometric_median_where_they_were_not(settings):
    rng = np.random.default_rng(22)
    rows, labels = np.exp(rng.normal(size=(400, 5))), rng.integers(0, 2, 400)
    found = gmmatch.GMMatching(keep=40, **settings).fit(rows, labels)
    named = gmmatch.GMMatching(keep=40, center="geometric-median", **settings).fit(rows, labels)
    assert found.selection_.info.center == "geometric-median"
    assert 0.0 < found.selection_.epsilon <= 1e-6
    np.testing.assert_array_equal(found.sample_indices_, named.sample_indices_)
    np.testing.assert_array_equal(found.centers_, named.centers_)


def test_the_target_of_clusters_is_the_mean():
    rows = np.exp(np.random.default_rng(22).normal(size=(400, 5)))
    found, named = (gmmatch.GMMatching(keep=40, center=center).fit(rows) for center in ("auto", "mean"))
    assert found.selection_.info.center == "mean"
    assert found.selection_.epsilon == 0.0
    np.testing.assert_array_equal(found.sample_indices_, named.sample_indices_)


@pytest.mark.parametrize("batch_size", [None, 64])
def test_a_class_too_small_for_the_gate_is_not_matched_by_its_mean(batch_size):
    rng = np.random.default_rng(23)
    labels = np.repeat([0, 1, 2], [100, 100, 5])
    rows = rng.normal(size=(205, 4)) + 5.0 * np.eye(4)[labels]
    rows[-1] = 1e6
    estimator = gmmatch.GMMatching(keep=0.4, batch_size=batch_size).fit(rows, labels)
    # Whole classes have a target each, and the facts name them all; batches have one for all.
    named = "mean and geometric-median" if batch_size is None else "geometric-median"
    assert estimator.selection_.info.center == named
    assert np.linalg.norm(estimator.centers_[2]) < 20.0
    assert 204 not in estimator.sample_indices_


def test_refine_is_ignored_with_a_warning():
    rows = np.random.default_rng(0).normal(size=(60, 4))
    with pytest.warns(DeprecationWarning, match="refine is ignored"):
        found = gmmatch.select(rows, keep=6, refine=20)
    np.testing.assert_array_equal(found.indices, gmmatch.select(rows, keep=6).indices)
