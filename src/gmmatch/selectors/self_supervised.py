"""Self-supervised: rows far from, or near to, the prototypes that k-means finds."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..arrays import IntArray, Vector
from ..compute.runner import gather, hold_rows
from ..errors import InvalidInput
from ..location.distances import group_distances
from ..matching.groups import Group, Outline
from ..matching.kmeans import kmeans, prototype_distances
from ..validation import check_choice, check_positive_int
from .ranking import Ranking, all_members, smallest

PREFERENCES = ("hard", "easy")
CLUSTERS_WITHOUT_CLASSES = 10
SAMPLE_ROWS = 1 << 16
"""Rows that prototypes are found on at most."""


class SelfSupervised(Ranking):
    """Cluster all rows, and keep those farthest from (or nearest to) the prototype of their cluster.

    Parameters
    ----------
    prefer
        `hard` keeps the rows farthest from their prototype, `easy` the nearest. The paper advises hard
        rows where data is plenty and easy ones where it is scarce.
    n_clusters
        Number of prototypes; None: as many as there are classes, or 10 without classes.

    Notes
    -----
    The score of a pick is its distance to the nearest prototype, in the space of the rows as given (the
    paper measures angles: scale the rows to length one for those). The first prototypes are drawn by row
    number, so that rows in another order may have other clusters. Labels divide the budget; the clusters are
    those of all rows either way.

    k-means runs on at most 65,536 rows, drawn at random where there are more; all rows are then compared with
    the prototypes that it found.

    Time: O(rows * features * clusters), and as much for each of at most 100 rounds on the sample. Memory: the
    sample, and a few numbers per row.

    References
    ----------
    Sorscher et al.: Beyond Neural Scaling Laws: Beating Power Law Scaling via Data Pruning, 2022.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.array([[0.0], [1.0], [5.0], [20.0], [21.0], [22.0]])
    >>> gmmatch.select(rows, keep=2, method="self-supervised", n_clusters=2).indices
    array([2, 0])
    """

    name = "self-supervised"

    center: object = None
    prefer: Literal["hard", "easy"] = "hard"
    n_clusters: int | None = None

    def _check(self) -> None:
        check_choice(self.prefer, PREFERENCES, "prefer")
        if self.n_clusters is not None:
            check_positive_int(self.n_clusters, "n_clusters")

    def _wants_features(self) -> bool:
        return True

    def _picking_reads(self, outline: Outline) -> int:
        return super()._picking_reads(outline) + 1

    def _score(self, groups: list[Group], distances: Vector) -> Vector:
        source, members = groups[0].source, all_members(groups)
        rng, count = np.random.default_rng(groups[0].seed), self._count(groups, len(members))
        if len(members) > SAMPLE_ROWS:
            sample = np.sort(rng.choice(members, SAMPLE_ROWS, replace=False))
            return prototype_distances(source, members, kmeans(gather(source, sample), count, rng)[0])
        rows = hold_rows(source, members)
        prototypes, codes = kmeans(rows, count, rng)
        scores = np.zeros(len(source))
        scores[members] = group_distances(rows, codes, prototypes)
        return scores

    def _count(self, groups: list[Group], n_rows: int) -> int:
        """Return the number of clusters to look for."""
        if self.n_clusters is None:
            return len(groups) if len(groups) > 1 else min(CLUSTERS_WITHOUT_CLASSES, n_rows)
        if self.n_clusters > n_rows:
            raise InvalidInput(
                f"n_clusters asks for {self.n_clusters} clusters, but there are only {n_rows} rows"
            )
        return self.n_clusters

    def _order(self, group: Group, scores: Vector, k: int) -> IntArray:
        return smallest(-scores if self.prefer == "hard" else scores, k)
