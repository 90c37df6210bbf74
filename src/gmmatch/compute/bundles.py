"""Work of different sizes, put together so that all workers have about as much."""

import heapq
from collections.abc import Sequence


def bundles(sizes: Sequence[int], n_bundles: int) -> list[list[int]]:
    """Put chains of these sizes into bundles of nearly one size, none empty; the largest come first.

    >>> bundles([3, 0, 5, 0], 4)  # of which two are done already
    [[2], [0], [1, 3]]
    """
    heap = [(0, number) for number in range(min(n_bundles, len(sizes)))]
    found: list[list[int]] = [[] for _ in heap]
    for chain in sorted(range(len(sizes)), key=lambda chain: (-sizes[chain], chain)):
        load, number = heapq.heappop(heap)
        found[number].append(chain)
        heapq.heappush(heap, (load + sizes[chain], number))
    return [own for own in found if own]
