"""The loops that are compiled, by numba, when they are first run; `kernels` is their door.

Importing this module imports numba, so nobody but `kernels` does, and only when a loop is to run. The
compiler may not reorder additions, and no sum is split over threads: the same bits on every machine. Only
what is made by `any_order` differs in its last bits, and whoever uses it reckons with that.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ..validation import LARGEST_VALUE

_ALMOST = 1 - 1e-9
# Quarter turns in one, and the quarter turn as a sum of two numbers, of which the first has few digits.
_QUARTERS = 0.6366197723675814
_QUARTER_HIGH, _QUARTER_LOW = 1.5707963267341256, 6.077100506506192e-11
# Of Taylor's series without the first term, the last first: 1/17! to 1/3!, and 1/16! to 1/2!.
_SINES = tuple(1.0 / math.factorial(k) for k in range(17, 2, -2))
_COSINES = tuple(1.0 / math.factorial(k) for k in range(16, 1, -2))
_LARGEST_ANGLE = 1e6  # rows so far off are like no other row, whatever their angles
LANES = 32  # sums side by side, which the compiler turns into vector instructions of any width


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, and keep the code on disk where that is possible."""
    try:
        return njit(function, cache=True, nogil=True, error_model="numpy")
    except RuntimeError:  # numba found no folder to write to
        return njit(function, nogil=True, error_model="numpy")


def part(function: Callable[..., Any]) -> Any:
    """Compile a function as a part of those that call it, whose kept code holds it."""
    return njit(function, nogil=True, error_model="numpy", inline="always")


def any_order(function: Callable[..., Any]) -> Any:
    """Compile a part whose sums may be taken in any order, for results whose errors are reckoned with."""
    return njit(function, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


@part
def dot(a: Any, b: Any, c: Any, d: Any, lanes: Any) -> Any:
    """Return the inner product of a - b and c - d: 32 sums side by side, which are then added in halves."""
    for i in range(LANES):
        lanes[i] = 0.0
    whole = len(a) - len(a) % LANES
    for first in range(0, whole, LANES):
        last = first + LANES
        e, f, g, h = a[first:last], b[first:last], c[first:last], d[first:last]
        for i in range(LANES):
            lanes[i] += (e[i] - f[i]) * (g[i] - h[i])
    e, f, g, h = a[whole:], b[whole:], c[whole:], d[whole:]
    for i in range(len(e)):
        lanes[i] += (e[i] - f[i]) * (g[i] - h[i])
    half = LANES
    while half > 1:
        half //= 2
        for i in range(half):
            lanes[i] += lanes[half + i]
    return lanes[0]


@compiled
def group_distances(rows: Any, codes: Any, points: Any, found: Any) -> None:
    """Fill in the distance of each row to the point of its group; without codes, to the first point."""
    lanes = np.empty(LANES)
    for row in range(len(rows)):
        x, y = rows[row], points[min(max(codes[row], 0), len(points) - 1) if len(codes) else 0]
        found[row] = np.sqrt(dot(x, y, x, y, lanes))


@compiled
def group_sums(rows: Any, codes: Any, weights: Any, sums: Any, mass: Any) -> None:
    """Add each row to the sum of its group, one after the other; rows of a negative group to none."""
    for row in range(len(rows)):
        group = codes[row] if len(codes) else 0
        if group >= 0:
            weight = weights[row] if len(weights) else 1.0
            mass[group] += weight
            x, total = rows[row], sums[group]
            for i in range(len(x)):
                total[i] += weight * x[i]


@compiled
def median_sums(rows: Any, codes: Any, weights: Any, points: Any, numbers: Any, pull: Any, near: Any) -> None:
    """Add up what a block of rows tells about one point per group; see `location._median_sums`."""
    lanes = np.empty(LANES)
    for row in range(len(rows)):
        group = codes[row] if len(codes) else 0
        if group < 0:
            continue
        weight = weights[row] if len(weights) else 1.0
        x, z, told = rows[row], points[group], numbers[group]
        distance = np.sqrt(dot(x, z, x, z, lanes))
        told[0] += weight
        if distance == 0.0 or weight == 0.0:
            told[3] += weight
            continue
        inverse = weight / distance
        told[1] += weight * distance
        told[2] += inverse
        total, nearest = pull[group], near[group]
        for i in range(len(x)):
            total[i] += (x[i] - z[i]) * inverse
        if distance <= told[4]:
            if distance < told[4]:
                told[4], told[5], nearest[:] = distance, 0.0, 0.0
            told[5] += weight
            for i in range(len(x)):
                nearest[i] += (x[i] - z[i]) * inverse


@compiled
def scale_rows(rows: Any, origin: Any, scale: Any, most: Any, found: Any) -> None:
    """Fill in the first columns with (row - origin) / scale, no value larger than `most`."""
    for row in range(len(rows)):
        x, y = rows[row], found[row]
        for i in range(len(origin)):
            y[i] = min(max((x[i] - origin[i]) / scale, -most), most)


@compiled
def clip_rows(rows: Any, origin: Any, scale: Any, longest: Any, found: Any) -> None:
    """Fill in the first columns with (row - origin) / scale, no row longer than `longest`."""
    lanes = np.empty(LANES)
    for row in range(len(rows)):
        x, y = rows[row], found[row]
        length = np.sqrt(dot(x, origin, x, origin, lanes))
        factor = min(1.0 / scale, longest / max(length, scale))
        for i in range(len(origin)):
            y[i] = (x[i] - origin[i]) * factor


@compiled
def cosines_and_sines(angles: Any, factor: Any, found: Any) -> None:
    """Fill in the cosines of each row's angles, then the sines, times a factor.

    By Taylor's series, after whole quarter turns are taken off: the same bits on every machine, and several
    times as fast as the functions of the system, which the compiler cannot turn into vector instructions.
    """
    half = angles.shape[1]
    for row in range(len(angles)):
        x, cosines, sines = angles[row], found[row, :half], found[row, half:]
        for i in range(half):
            angle = min(max(x[i], -_LARGEST_ANGLE), _LARGEST_ANGLE)
            turns = np.rint(angle * _QUARTERS)
            r = (angle - turns * _QUARTER_HIGH) - turns * _QUARTER_LOW
            z = r * r
            sine, cosine = _SINES[0], _COSINES[0]
            for k in range(1, len(_SINES)):
                sine = _SINES[k] - z * sine
                cosine = _COSINES[k] - z * cosine
            sine, cosine = r - r * (z * sine), 1.0 - z * cosine
            quarter = turns - 4.0 * np.floor(turns * 0.25)
            odd = quarter == 1.0 or quarter == 3.0
            one, other = (sine, cosine) if odd else (cosine, sine)
            cosines[i] = (-one if quarter == 1.0 or quarter == 2.0 else one) * factor
            sines[i] = (-other if quarter >= 2.0 else other) * factor


@compiled
def check_and_hash(rows: Any, factors: Any, fixed: Any, good: Any, keys: Any, marks: Any) -> None:
    """Tell for each row whether all of its values are numbers of ordinary size, and hash it twice."""
    values = np.empty(rows.shape[1])
    bits = values.view(np.uint64)
    for row in range(len(rows)):
        x = rows[row]
        bad = 0
        for i in range(len(x)):
            values[i] = np.float64(x[i]) + 0.0  # turns minus zero into zero
            bad += not abs(values[i]) <= LARGEST_VALUE
        key = mark = np.uint64(0)
        for i in range(len(x)):
            folded = bits[i] ^ (bits[i] >> np.uint64(32))
            key += folded * factors[i]
            mark += folded * fixed[i]
        good[row], keys[row], marks[row] = bad == 0, key, mark if bad == 0 else np.uint64(0)


@compiled
def running_means(rows: Any, center: Any, count: Any, total: Any, objectives: Any, distances: Any) -> None:
    """Fill in how far the mean of the rows so far is from the centre, and each row; carry on the sum."""
    lanes, zeros = np.empty(LANES), np.zeros(len(center))
    for row in range(len(rows)):
        x = rows[row]
        for i in range(len(center)):
            total[i] += x[i] - center[i]
        distances[row] = np.sqrt(dot(x, center, x, center, lanes))
        objectives[row] = np.sqrt(dot(total, zeros, total, zeros, lanes)) / (count + row + 1)


@any_order
def _score_four(a: Any, b: Any, c: Any, d: Any, weights: Any, j: Any, k: Any, m: Any, n: Any) -> None:
    """Fill in the products of four rows with some weights, which are read once for all of them."""
    zero = weights.dtype.type(0)
    whole = len(weights) - len(weights) % 2
    for output in range(0, whole, 2):  # two at a time: fewer reads for as many products
        x, y = weights[output], weights[output + 1]
        e, f, g, h, p, q, r, s = zero, zero, zero, zero, zero, zero, zero, zero
        for i in range(len(x)):
            e += x[i] * a[i]
            f += x[i] * b[i]
            g += x[i] * c[i]
            h += x[i] * d[i]
            p += y[i] * a[i]
            q += y[i] * b[i]
            r += y[i] * c[i]
            s += y[i] * d[i]
        j[output], k[output], m[output], n[output] = e, f, g, h
        j[output + 1], k[output + 1], m[output + 1], n[output + 1] = p, q, r, s
    for output in range(whole, len(weights)):
        x = weights[output]
        e, f, g, h = zero, zero, zero, zero
        for i in range(len(x)):
            e += x[i] * a[i]
            f += x[i] * b[i]
            g += x[i] * c[i]
            h += x[i] * d[i]
        j[output], k[output], m[output], n[output] = e, f, g, h


@compiled
def fold_scores(inputs: Any, order: Any, folds: Any, weights: Any, scores: Any) -> None:
    """Fill in the products of each row with the weights of its fold, of shape (folds, outputs, inputs).

    `order`: the rows, fold by fold.
    """
    first = 0
    while first < len(order):
        fold, last = folds[order[first]], min(first + 3, len(order) - 1)
        while folds[order[last]] != fold:
            last -= 1
        # Where a fold ends, its last row is taken more than once.
        i, j, k, m = order[first], order[min(first + 1, last)], order[min(first + 2, last)], order[last]
        found = scores[i], scores[j], scores[k], scores[m]
        _score_four(inputs[i], inputs[j], inputs[k], inputs[m], weights[fold], *found)
        first = last + 1


@compiled
def judge_labels(
    told: Any, codes: Any, thresholds: Any, slack: Any, wrong: Any, odds: Any, other: Any, close: Any
) -> None:
    """Fill in what class probabilities say of each row's label; see `kernels.judge_labels`."""
    less, more = 1.0 - slack, 1.0 + slack
    for row in range(len(told)):
        p, code = told[row], codes[row]
        # The likeliest other class that is likely; how likely it would be with errors for it, and against it.
        best, likely, at_most, at_least = -1, -1.0, -1.0, -1.0
        fittest, fit, next_fit = 1 if code == 0 else 0, -1.0, -1.0
        for i in range(len(p)):
            if i == code:
                continue
            value, least = np.float64(p[i]), thresholds[i]
            if value >= least * less:
                at_most = max(at_most, value)
                if value >= least * more:
                    at_least = max(at_least, value)
                if value >= least and value > likely:
                    best, likely = i, value
            if value < next_fit * least * _ALMOST:  # most classes: no division
                continue
            share = value / least
            if share > fit:
                fittest, fit, next_fit = i, share, fit
            elif share > next_fit:
                next_fit = share
        own, least = np.float64(p[code]), thresholds[code]
        held = own >= least and (own > likely or (own == likely and code < best))
        wrong[row] = best >= 0 and not held
        total = fit + own / least
        odds[row] = fit / total if fit > 0.0 and total < np.inf else 1.0 if fit == np.inf else 0.0
        other[row] = fittest
        surely_right = at_most < 0.0 or (own >= least * more and own > at_most * more)
        surely_wrong = at_least >= 0.0 and (own < least * less or own < at_least * less)
        tied = next_fit >= fit * less and odds[row] > 0.1
        close[row] = slack > 0.0 and (tied or not (surely_right or surely_wrong))
