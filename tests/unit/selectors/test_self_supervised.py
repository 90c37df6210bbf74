"""k-means against scikit-learn's, and the selection that rests on it."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

import gmmatch
from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.matching.kmeans import Rounds, kmeans, nearest, spread_out


def blobs(seed: int = 0, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(5, size=600)
    return (rng.normal(size=(5, 8)) * 4)[labels] + spread * rng.normal(size=(600, 8)), labels


def inertia(rows: np.ndarray, prototypes: np.ndarray) -> float:
    return float(cdist(rows, prototypes, "sqeuclidean").min(axis=1).sum())


@pytest.mark.parametrize("seed", range(4))
def test_from_the_same_start_it_ends_where_scikit_learn_ends(seed: int) -> None:
    rows, _ = blobs(seed, spread=3.0)
    start = spread_out(rows, 7, np.random.default_rng(np.random.default_rng(seed).bit_generator.seed_seq))
    prototypes, codes = kmeans(rows, 7, np.random.default_rng(seed), max_iter=1000, tolerance=0.0)
    theirs = KMeans(7, init=start, n_init=1, tol=0.0, max_iter=1000, algorithm="lloyd").fit(rows)
    np.testing.assert_allclose(prototypes, theirs.cluster_centers_, atol=1e-9)
    np.testing.assert_array_equal(codes, theirs.labels_)


def test_it_is_nearly_as_good_as_the_best_of_many_runs() -> None:
    rows, _ = blobs(1)
    best = KMeans(5, n_init=20, random_state=0).fit(rows).inertia_
    found = min(inertia(rows, kmeans(rows, 5, np.random.default_rng(seed))[0]) for seed in range(5))
    assert found <= 1.01 * best


def test_every_row_is_given_its_nearest_prototype() -> None:
    rows, _ = blobs(2, spread=2.0)
    prototypes, codes = kmeans(rows.astype(np.float32), 6, np.random.default_rng(0))
    np.testing.assert_array_equal(codes, cdist(rows.astype(np.float32), prototypes).argmin(axis=1))


def test_fewer_distinct_rows_than_clusters_give_fewer_clusters() -> None:
    rows = np.repeat(np.eye(3), 10, axis=0)
    prototypes, _ = kmeans(rows, 8, np.random.default_rng(0))
    assert len(prototypes) == 3
    assert inertia(rows, prototypes) == 0.0


def test_the_first_of_equally_near_prototypes_is_taken() -> None:
    rows = np.array([[0.0, 1.0], [0.0, -3.0]])
    assert nearest(rows, np.array([[5.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])).tolist() == [1, 1]


def test_a_prototype_without_rows_stays() -> None:
    rounds = Rounds(np.array([[0.0], [2.0]]), np.array([[1.0], [50.0]]))
    assert not rounds.go()
    np.testing.assert_array_equal(rounds.prototypes, [[1.0], [50.0]])


def test_scores_are_distances_to_the_nearest_of_as_many_prototypes_as_classes() -> None:
    rows, labels = blobs(3)
    hard, easy = (
        gmmatch.select(rows, keep=100, labels=labels, method="self-supervised", prefer=prefer)
        for prefer in ("hard", "easy")
    )
    prototypes, _ = kmeans(rows, 5, np.random.default_rng((0, 0)))
    distances = cdist(rows, prototypes).min(axis=1)
    np.testing.assert_allclose(hard.scores, distances[hard.indices], rtol=1e-9)
    for label in range(5):
        ranked = sorted(np.flatnonzero(labels == label), key=lambda row: distances[row])
        mine = easy.indices[easy.labels == label]
        assert mine.tolist() == ranked[: len(mine)]
        mine = hard.indices[hard.labels == label]
        assert mine.tolist() == ranked[::-1][: len(mine)]


def test_the_number_of_clusters_can_be_given() -> None:
    rows, labels = blobs(4)
    one = gmmatch.select(rows, keep=20, method="self-supervised", n_clusters=1)
    np.testing.assert_array_equal(one.indices, gmmatch.select(rows, keep=20, method="hard").indices)
    ten, default = (gmmatch.select(rows, keep=20, method="self-supervised", n_clusters=n) for n in (10, None))
    np.testing.assert_array_equal(ten.indices, default.indices)
    five, by_class = (
        gmmatch.select(rows, keep=20, labels=labels, method="self-supervised", n_clusters=n)
        for n in (5, None)
    )
    np.testing.assert_array_equal(five.indices, by_class.indices)


def test_numbers_of_clusters_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="n_clusters must be a whole number of at least 1; got 0"):
        gmmatch.select(np.eye(4), keep=2, method="self-supervised", n_clusters=0)
    with pytest.raises(InvalidInput, match="5 clusters, but there are only 4 rows"):
        gmmatch.select(np.eye(4), keep=2, method="self-supervised", n_clusters=5)
    with pytest.raises(InvalidParameter, match="prefer must be 'hard' or 'easy'"):
        gmmatch.select(np.eye(4), keep=2, method="self-supervised", prefer="highest")


def test_rows_of_a_view_are_clustered_like_those_of_an_array() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(30, 2)).astype(np.float16)
    labels = rng.integers(0, 3, 30)
    view = gmmatch.select(rows, keep=0.5, labels=labels, method="self-supervised")
    array = gmmatch.select(rows.astype(np.float32), keep=0.5, labels=labels, method="self-supervised")
    np.testing.assert_array_equal(view.indices, array.indices)
    copies = np.zeros((15, 1), np.float16)  # the guard has a head, but nothing to tell the rows by
    assert (
        len(
            gmmatch.select(copies, keep=0.9, labels=np.arange(15) % 3, method="self-supervised", guard="auto")
        )
        == 14
    )
