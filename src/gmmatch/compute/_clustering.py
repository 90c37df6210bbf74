"""The compiled loops of k-means, and of grids; see `_loops`."""

from typing import Any

import numpy as np

from ._loops import LANES, any_order, compiled, dot, part

_ROWS_AT_ONCE = 256  # whose gaps have a sum of their own


@any_order
def _four_gaps(x: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the squared distances of four rows to another, in their precision."""
    e = f = g = h = x.dtype.type(0)
    for i in range(len(x)):
        e += (a[i] - x[i]) * (a[i] - x[i])
        f += (b[i] - x[i]) * (b[i] - x[i])
        g += (c[i] - x[i]) * (c[i] - x[i])
        h += (d[i] - x[i]) * (d[i] - x[i])
    return e, f, g, h


@part
def _lower_gaps(rows: Any, x: Any, point: Any, sure: Any, lanes: Any, gaps: Any) -> Any:
    """Lower the gaps of some rows to their squared distance to a point, where that is less; tell whether any.

    `x`, `point`: the point as a row, and in float64. `sure`: share of a distance in the precision of the rows
    that is no rounding error; where it does not tell, float64 does.
    """
    lower, last = False, len(rows) - 1
    for first in range(0, len(rows), 4):
        near = _four_gaps(
            x, rows[first], rows[min(first + 1, last)], rows[min(first + 2, last)], rows[min(first + 3, last)]
        )
        for j in range(min(4, len(rows) - first)):
            if near[j] * sure >= gaps[first + j] and near[j] < np.inf:
                continue
            y = rows[first + j]
            exact = dot(y, point, y, point, lanes)
            if exact < gaps[first + j]:
                gaps[first + j], lower = exact, True
    return lower


@compiled
def spread_out(rows: Any, draws: Any, sure: Any, chosen: Any) -> Any:
    """Fill in rows, each drawn with probability by its squared distance to those before; return how many.

    The first one is given. Fewer than wanted are found where all rows equal one of them.
    """
    gaps, lanes, point = np.full(len(rows), np.inf), np.empty(LANES), np.empty(rows.shape[1])
    sums = np.zeros(-(-len(rows) // _ROWS_AT_ONCE))
    for made in range(1, len(chosen)):
        x, total = rows[chosen[made - 1]], 0.0
        for i in range(len(x)):
            point[i] = x[i]
        for block in range(len(sums)):
            own = slice(block * _ROWS_AT_ONCE, (block + 1) * _ROWS_AT_ONCE)
            if _lower_gaps(rows[own], x, point, sure, lanes, gaps[own]):
                sums[block] = 0.0
                for gap in gaps[own]:
                    sums[block] += gap
            total += sums[block]
        if total == 0.0:
            return made
        wanted, before, block = draws[made - 1] * total, 0.0, 0
        while block + 1 < len(sums) and before + sums[block] <= wanted:
            before, block = before + sums[block], block + 1
        while sums[block] == 0.0:  # tiny numbers are rounded up
            block -= 1
        drawn = 0
        for row in range(block * _ROWS_AT_ONCE, min(len(rows), (block + 1) * _ROWS_AT_ONCE)):
            if gaps[row] > 0.0:
                drawn, before = row, before + gaps[row]
                if before > wanted:
                    break
        chosen[made] = drawn
    return len(chosen)


@part
def _two_least(products: Any, sizes: Any, least: Any, second: Any, place: Any) -> Any:
    """Return where the least of the squared distances is, itself, and the least of the others.

    Without what all of them have in common. `least`, `second`, `place`: memory for those of the lanes, which
    the compiler turns into vector instructions.
    """
    minus_two, whole = products.dtype.type(-2), len(products) - len(products) % LANES
    for j in range(LANES):
        least[j] = second[j] = np.inf
        place[j] = 0
    for first in range(0, whole, LANES):
        some, size = products[first : first + LANES], sizes[first : first + LANES]
        for j in range(LANES):
            value, best = some[j] * minus_two + size[j], least[j]
            other = max(value, best)
            second[j] = min(second[j], other)
            place[j] = first if value < best else place[j]
            least[j] = min(value, best)
    at, top, next_top = 0, np.inf, np.inf
    for j in range(LANES):
        if least[j] < top:
            at, next_top, top = place[j] + j, min(top, second[j]), least[j]
        else:
            next_top = min(next_top, least[j])
    for i in range(whole, len(products)):
        value = products[i] * minus_two + sizes[i]
        if value < top:
            at, next_top, top = i, top, value
        else:
            next_top = min(next_top, value)
    return at, top, next_top


@compiled
def nearest_points(
    products: Any, sizes: Any, errors: Any, found: Any, unsure: Any, least: Any, second: Any
) -> None:
    """Fill in the point nearest to each row, the first of those too close to tell, and whether it has rivals.

    `products`: of rows and points. `sizes`: squared lengths of the points. `errors`: of squared distances.
    `least`, `second`: filled in with the two least of these, without the squared lengths of the rows.
    """
    minus_two = products.dtype.type(-2)
    one, two = np.empty(LANES, products.dtype), np.empty(LANES, products.dtype)
    place = np.empty(LANES, np.int32)
    for row in range(len(products)):
        own = products[row]
        found[row], least[row], second[row] = _two_least(own, sizes, one, two, place)
        limit = least[row] + 2.0 * errors[row]
        unsure[row] = not second[row] > limit
        if unsure[row]:
            for i in range(len(own)):
                if own[i] * minus_two + sizes[i] <= limit:
                    found[row] = i
                    break


@compiled
def nearest_moved(
    products: Any, moved: Any, sizes: Any, errors: Any, found: Any, unsure: Any, least: Any, second: Any
) -> None:
    """Bring up to date what `nearest_points` filled in, after some points moved; tell where that is unsure.

    `products`, `sizes`: of the moved points alone. `moved`: by point, its place among these, or -1.
    """
    numbers = np.flatnonzero(moved >= 0)
    one, two = np.empty(LANES, products.dtype), np.empty(LANES, products.dtype)
    place = np.empty(LANES, np.int32)
    for row in range(len(products)):
        at, top, next_top = _two_least(products[row], sizes, one, two, place)
        point = numbers[at]
        if moved[found[row]] < 0:  # the nearest so far is where it was
            if least[row] < top:
                point, top, next_top = found[row], least[row], top
            else:
                next_top = min(next_top, least[row])
        next_top = min(next_top, second[row])
        unsure[row] = not next_top > top + 4.0 * errors[row]
        if not unsure[row]:
            found[row], least[row], second[row] = point, top, next_top


@compiled
def name_cells(points: Any, rows: Any, sides: Any, shifts: Any, width: Any, factors: Any, names: Any) -> None:
    """Fill in a hash of the cell of a grid that each of some points is in; see `kernels.name_cells`."""
    for row in range(len(rows)):
        x, name = points[rows[row]], np.uint64(0)
        for side in range(len(sides)):
            cell = np.floor((x[sides[side]] + shifts[side]) / width)
            name += np.uint64(np.int64(cell)) * factors[side]
        names[row] = name
