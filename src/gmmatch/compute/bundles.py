"""Work of different sizes, put together so that all workers have about as much."""

import heapq
from collections.abc import Sequence


def bundles(sizes: Sequence[int], n_bundles: int) -> list[list[int]]:
    """Put chains of these sizes into bundles of nearly one size; the largest come first."""
    heap = [(0, number) for number in range(min(n_bundles, len(sizes)))]
    found: list[list[int]] = [[] for _ in heap]
    for chain in sorted(range(len(sizes)), key=lambda chain: (-sizes[chain], chain)):
        load, number = heapq.heappop(heap)
        found[number].append(chain)
        heapq.heappush(heap, (load + sizes[chain], number))
    return found
