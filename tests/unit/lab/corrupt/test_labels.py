"""Label noise: exact shares, the right classes, and rates that match their matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gmmatch.corrupt import corrupt_labels
from gmmatch.errors import InvalidInput, InvalidParameter, UnknownParameter
from gmmatch.lab.corrupt._draw import draw_weighted


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(2, 200),
    n_classes=st.integers(2, 12),
    share=st.floats(0, 1),
    kind=st.sampled_from(["symmetric", "pair", "instance"]),
    text=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_exactly_the_rounded_share_is_wrong_and_the_mask_says_which(
    count, n_classes, share, kind, text, seed
):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([[0, 1], rng.integers(0, n_classes, count - 2)])
    if text:
        labels = np.array([f"class {code}" for code in labels])
    before = labels.copy()
    own = {"features": rng.normal(size=(count, 3))} if kind == "instance" else {}
    noisy, mask = corrupt_labels(labels, share, kind, seed, **own)
    again, _ = corrupt_labels(labels, share, kind, np.random.default_rng(seed), **own)
    assert mask.sum() == int(np.floor(share * count + 0.5))
    assert noisy.dtype == labels.dtype
    np.testing.assert_array_equal(noisy != labels, mask)
    np.testing.assert_array_equal(noisy, again)
    np.testing.assert_array_equal(labels, before)
    assert set(noisy) <= set(labels)


def test_symmetric_noise_takes_all_other_classes_equally_often():
    labels = np.repeat(np.arange(5), 4000)
    noisy, mask = corrupt_labels(labels, 0.4, rng=1)
    counts = np.zeros((5, 5))
    np.add.at(counts, (labels[mask], noisy[mask]), 1)
    off_diagonal = counts[~np.eye(5, dtype=bool)]
    assert np.trace(counts) == 0
    assert stats.chisquare(off_diagonal).pvalue > 1e-3


def test_pair_noise_takes_the_next_class():
    labels = np.repeat([3, 7, 20], 50)
    noisy, mask = corrupt_labels(labels, 0.5, "pair")
    expected = {3: 7, 7: 20, 20: 3}
    assert mask.sum() == 75
    assert all(expected[old] == new for old, new in zip(labels[mask], noisy[mask], strict=True))


def test_matrix_noise_has_the_rates_of_its_matrix():
    matrix = np.array([[0.1, 0.9, 0.0], [0.05, 0.9, 0.05], [0.0, 0.0, 1.0]])
    sizes = np.array([10_000, 20_000, 5_000])
    labels = np.repeat([0, 1, 2], sizes)
    noisy, mask = corrupt_labels(labels, None, "matrix", rng=2, matrix=matrix)
    rates = np.zeros((3, 3))
    np.add.at(rates, (labels, noisy), 1)
    np.testing.assert_allclose(rates / sizes[:, None], matrix, atol=0.01)
    assert mask.sum() == 11_000


def test_matrix_noise_of_a_given_share_is_exact():
    matrix = [[0.7, 0.3], [0.1, 0.9]]
    labels = np.repeat(["a", "b"], 2000)
    noisy, mask = corrupt_labels(labels, 0.1, "matrix", matrix=matrix)
    assert mask.sum() == 400
    assert (mask[:2000].sum(), mask[2000:].sum()) == pytest.approx((300, 100), abs=1)
    assert ((noisy != labels) == mask).all()
    with pytest.raises(InvalidInput, match="share asks for 3000 wrong rows, but only 2000"):
        corrupt_labels(labels, 0.75, "matrix", matrix=[[0.5, 0.5], [0, 1]])


def test_instance_noise_mislabels_similar_rows_alike():
    """Inside one class, rows of the same place go to one wrong class; under symmetric noise they do not."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(20, 8)) * 3
    where = rng.integers(0, 20, 20_000)
    features = places[where] + 0.1 * rng.normal(size=(20_000, 8))
    labels = rng.integers(0, 6, 20_000)

    def agreement(noisy: np.ndarray, mask: np.ndarray) -> float:
        found = []
        for place in range(20):
            for code in range(6):
                wrong = noisy[mask & (where == place) & (labels == code)]
                found.append(np.bincount(wrong).max() / wrong.size)
        return float(np.mean(found))

    by_instance = agreement(*corrupt_labels(labels, 0.4, "instance", features=features))
    by_chance = agreement(*corrupt_labels(labels, 0.4))
    assert by_instance > 0.6
    assert by_chance < 0.4


def test_given_classes_that_do_not_occur_can_be_wrong_labels():
    noisy, mask = corrupt_labels([0] * 300, 0.5, classes=[2, 0, 1])
    assert mask.sum() == 150
    assert set(noisy[mask].tolist()) == {1, 2}
    noisy, _ = corrupt_labels([0, 1, 2], 1, "pair", classes=[2, 0, 1])
    assert noisy.tolist() == [1, 2, 0]


def test_types_and_shapes_are_kept():
    for labels in (np.array([0, 1, 2], np.uint8), np.array([0.0, 1, 2]), np.array(["a", "b", "c"], object)):
        noisy, _ = corrupt_labels(labels, 1.0, "pair")
        assert noisy.dtype == labels.dtype
    assert corrupt_labels(np.array([[0], [1]]), 1.0)[0].tolist() == [[1], [0]]
    assert corrupt_labels([True, False], 1.0)[0].tolist() == [False, True]


def test_weighted_draws_have_chances_in_proportion_to_the_weights():
    weights = np.array([0.1, 0.2, 0.3, 0.4, 5.0, 0.0])
    rng = np.random.default_rng(0)
    taken = np.zeros(6)
    for _ in range(4000):
        rows = draw_weighted(weights, 3, rng)
        assert len(set(rows)) == 3
        taken[rows] += 1
    # The heavy row is certain; the other two draws go to the rest in proportion.
    np.testing.assert_allclose(taken / 4000, [0.2, 0.4, 0.6, 0.8, 1, 0], atol=0.03)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-300]), min_size=1, max_size=60),
    st.data(),
)
def test_weighted_draws_are_always_different_rows(weights, data):
    array = np.array(weights)
    count = data.draw(st.integers(0, int((array > 0).sum())))
    rows = draw_weighted(array, count, np.random.default_rng(0))
    assert len(rows) == len(set(rows.tolist())) == count
    assert (array[rows] > 0).all()


@pytest.mark.parametrize(
    ("labels", "parameters", "error", "message"),
    [
        ([1, 1, 1], {}, InvalidInput, "one class only"),
        (np.array(["a"] * 3, object), {}, InvalidInput, "one class only .'a'."),
        ([0, 1], {"share": -0.1}, InvalidParameter, "share"),
        ([0, 1], {"share": None}, InvalidParameter, "got None"),
        ([0, 1], {"kind": "symetric"}, InvalidParameter, "did you mean 'symmetric'"),
        ([0, 1], {"kind": "matrix"}, InvalidParameter, "needs the parameter 'matrix'"),
        ([0, 1], {"kind": "instance"}, InvalidParameter, "needs the parameter 'features'"),
        ([0, 1], {"matrix": np.eye(2)}, UnknownParameter, "has no parameter 'matrix'"),
        ([0, 1], {"kind": "matrix", "matrix": np.eye(3)}, InvalidInput, r"expected \(2, 2\)"),
        ([0, 1], {"kind": "matrix", "matrix": [[0.5, 0.4], [0, 1]]}, InvalidInput, "row 0 .* sums to 0.9"),
        ([0, 1], {"kind": "matrix", "matrix": [[2, -1], [0, 1]]}, InvalidInput, "smallest entry -1"),
        ([0, 1], {"kind": "instance", "features": np.zeros((3, 2))}, InvalidInput, "3 rows for 2 labels"),
        ([0, 1], {"classes": [0, 2]}, InvalidInput, "not among the given classes"),
        ([0, 1], {"classes": [0, 1, 1]}, InvalidInput, "each class once"),
        (["a", "b"], {"classes": ["a", "b", "long"]}, InvalidInput, "cannot hold"),
        ([0.5, 1], {}, InvalidInput, "got 0.5 at row 0"),
        ([[0, 1], [1, 0]], {}, InvalidInput, "one dimension"),
        ([], {}, InvalidInput, "labels are empty"),
        (3, {}, InvalidInput, "one dimension"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(labels, parameters, error, message):
    with pytest.raises(error, match=message):
        corrupt_labels(labels, **parameters)
