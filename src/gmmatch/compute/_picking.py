"""The compiled loops that pick rows; see `_loops`."""

from typing import Any

import numpy as np

from ._loops import LANES, any_order, compiled, dot, part


@any_order
def _subtract_products(offsets: Any, x: Any, factor: Any, scores: Any) -> None:
    """Subtract from each score `factor` times the inner product of its offset with x.

    In the precision of the offsets.
    """
    zero = offsets.dtype.type(0)
    # As `_loops._score_four`, but the sums stay here: as a part that both call, it took a fifth longer.
    whole = len(offsets) - len(offsets) % 4
    for row in range(0, whole, 4):
        a, b, c, d = offsets[row], offsets[row + 1], offsets[row + 2], offsets[row + 3]
        e, f, g, h = zero, zero, zero, zero
        for i in range(len(x)):
            e += x[i] * a[i]
            f += x[i] * b[i]
            g += x[i] * c[i]
            h += x[i] * d[i]
        scores[row] -= factor * e
        scores[row + 1] -= factor * f
        scores[row + 2] -= factor * g
        scores[row + 3] -= factor * h
    for row in range(whole, len(offsets)):
        a, e = offsets[row], zero
        for i in range(len(x)):
            e += x[i] * a[i]
        scores[row] -= factor * e


@any_order
def _center_rows(rows: Any, near: Any, rest: Any, offsets: Any, squares: Any) -> None:
    """Fill in the rows minus a centre, given as a sum of two vectors, and the squares of their lengths."""
    for row in range(len(rows)):
        x, y, total = rows[row], offsets[row], offsets.dtype.type(0)
        for i in range(len(x)):
            y[i] = (x[i] - near[i]) - rest[i]
        for i in range(len(x)):
            total += y[i] * y[i]
        squares[row] = total


@part
def _decide(rows: Any, center: Any, theta: Any, zeros: Any, rival: Any, weight: Any) -> Any:
    """Return the best of some rows that are too close to tell, the first of equals, from the rows."""
    lanes = np.empty(LANES)
    best, top = -1, -np.inf
    for row in range(len(rows)):
        if rival[row]:
            x = rows[row]
            square = dot(x, center, x, center, lanes)
            score = dot(x, center, theta, zeros, lanes) - weight * square
            if best < 0 or score > top:
                best, top = row, score
    return best


@compiled
def greedy(
    rows: Any,
    center: Any,
    start: Any,
    squares: Any,
    weight: Any,
    gram: Any,
    offsets: Any,
    unit: Any,
    spread: Any,
    count: Any,
    scores: Any,
    theta: Any,
    picks: Any,
    objectives: Any,
    distances: Any,
) -> Any:
    """Fill in picks, one after the other; return how many were too close to tell by their scores.

    The products that scores change by are those of `gram` or, without one, computed from `offsets`.

    The error of a row's score is at most `unit` times its norm and that of theta, for which `spread` is
    the square, plus `unit` times its penalty. Where a row comes so close to the best that such errors
    may have decided, the rows decide.
    """
    n_rows = len(rows)
    lanes, zeros, rival = np.empty(LANES), np.zeros(len(center)), np.empty(n_rows, np.bool_)
    largest, close_calls = squares.max(), 0
    for turn in range(len(picks)):
        best = 0
        while scores[best] == -np.inf:  # picked already
            best += 1
        top, second = scores[best], -np.inf
        for row in range(best + 1, n_rows):
            if scores[row] > top:
                best, top, second = row, scores[row], top
            elif scores[row] > second:
                second = scores[row]
        slack = unit * np.sqrt(spread)
        if second >= top - 2.0 * (slack * np.sqrt(largest) + unit * weight * largest):
            least = top - slack * np.sqrt(squares[best]) - unit * weight * squares[best]
            n_rivals = 0
            for row in range(n_rows):
                error = slack * np.sqrt(squares[row]) + unit * weight * squares[row]
                rival[row] = row == best or scores[row] + error >= least
                n_rivals += rival[row]
            if n_rivals > 1:
                close_calls += 1
                best = _decide(rows, center, theta, zeros, rival, weight)
        x = rows[best]
        for i in range(len(center)):
            theta[i] -= x[i] - center[i]
        picks[turn] = best
        distances[turn] = np.sqrt(dot(x, center, x, center, lanes))
        objectives[turn] = np.sqrt(dot(start, theta, start, theta, lanes)) / (count + turn + 1)
        spread += squares[best]
        scores[best] = -np.inf
        if len(gram):
            products = gram[best]
            for row in range(n_rows):
                scores[row] -= products[row]
        elif len(offsets) and turn + 1 < len(picks):
            _subtract_products(offsets, offsets[best], 1.0, scores)
    return close_calls


@compiled
def greedy_batches(
    rows: Any,
    ends: Any,
    quotas: Any,
    center: Any,
    near: Any,
    start: Any,
    weight: Any,
    unit: Any,
    largest: Any,
    count: Any,
    theta: Any,
    offsets: Any,
    picks: Any,
    objectives: Any,
    distances: Any,
) -> Any:
    """Fill in the picks of batches that follow each other in `rows`; return how many batches were done.

    `near`, `offsets`: the centre in the precision of the rows, and memory for as many as a batch has. It ends
    before a batch of which a squared length is beyond `largest`.
    """
    nothing = np.empty((0, 0), rows.dtype)
    squares, scores = np.empty(len(offsets)), np.empty(len(offsets))
    rest, direction = np.empty_like(near), np.empty_like(near)
    for i in range(len(center)):
        rest[i] = center[i] - near[i]
    first = made = 0
    for batch in range(len(ends)):
        part, own, last = rows[first : ends[batch]], offsets[: ends[batch] - first], made + quotas[batch]
        first = ends[batch]
        if last == made:
            continue
        square, score = squares[: len(own)], scores[: len(own)]
        _center_rows(part, near, rest, own, square)
        if not square.max() <= largest:
            return batch
        spread = 0.0
        for i in range(len(theta)):
            direction[i] = theta[i]
            spread += theta[i] * theta[i]
        for row in range(len(own)):
            score[row] = -weight * square[row]
        _subtract_products(own, direction, -1.0, score)
        found = picks[made:last], objectives[made:last], distances[made:last]
        carried = unit, spread, count + made, score, theta
        greedy(part, center, start, square, weight, nothing, own, *carried, *found)
        made = last
    return len(ends)


@compiled
def greedy_groups(
    rows: Any,
    firsts: Any,
    sizes: Any,
    quotas: Any,
    centers: Any,
    nears: Any,
    starts: Any,
    weight: Any,
    unit: Any,
    largest: Any,
    offsets: Any,
    picks: Any,
    objectives: Any,
    distances: Any,
) -> Any:
    """Fill in the picks of groups that know nothing of each other, each as `greedy_batches` does one batch.

    It ends before a group of which a squared length is beyond `largest`; return how many were done.
    """
    made = 0
    for group in range(len(sizes)):
        first, last, stop = firsts[group], firsts[group] + sizes[group], made + quotas[group]
        one, own = slice(group, group + 1), offsets[: sizes[group]]
        told = (
            centers[group],
            nears[group],
            starts[group],
            weight,
            unit,
            largest,
            0,
            starts[group].copy(),
            own,
        )
        found = picks[made:stop], objectives[made:stop], distances[made:stop]
        if greedy_batches(rows[first:last], sizes[one], quotas[one], *told, *found) == 0:
            return group
        made = stop
    return len(sizes)
