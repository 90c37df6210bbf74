"""The compiled loops in NumPy: the same bits, several times slower, for tests and machines without a build.

Arguments as in `rows.h`, without the sizes. Arrays are filled in place.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[Any]
_LANES = 32
_GAP_ROWS = 256


def _lane_sums(terms: _Array, lanes: int = _LANES) -> _Array:
    """Return the sum of each row: so many sums side by side, which are then added in halves."""
    sums = np.zeros((len(terms), lanes), terms.dtype)
    for first in range(0, terms.shape[1], lanes):
        part = terms[:, first : first + lanes]
        sums[:, : part.shape[1]] += part
    while lanes > 1:
        lanes //= 2
        sums[:, :lanes] += sums[:, lanes : 2 * lanes]
    return sums[:, 0]


def _squares(gaps: _Array) -> _Array:
    return _lane_sums(gaps * gaps)


def _products(rows: _Array, x: _Array) -> _Array:
    """Return the inner products of rows with x (or each with its own), in their precision."""
    return _lane_sums(rows * x, 64 // rows.itemsize)


def group_distances(rows: _Array, codes: _Array | None, points: _Array, found: _Array) -> None:
    """Fill in the distance of each row to the point of its group."""
    own = points[:1] if codes is None else points[np.clip(codes, 0, len(points) - 1)]
    found[:] = np.sqrt(_squares(rows - own))


def group_sums(
    rows: _Array, codes: _Array | None, weights: _Array | None, sums: _Array, mass: _Array
) -> None:
    """Add each row to the sum of its group."""
    rows, group, weight = _grouped(rows, codes, weights)
    np.add.at(mass, group, weight)
    np.add.at(sums, group, weight[:, None] * rows)


def _grouped(rows: _Array, codes: _Array | None, weights: _Array | None) -> tuple[_Array, _Array, _Array]:
    """Return the rows of a group, their groups and their weights."""
    group = np.zeros(len(rows), np.int64) if codes is None else codes
    weight = np.ones(len(rows)) if weights is None else weights
    counted = group >= 0
    return rows[counted], group[counted], weight[counted]


def median_sums(
    rows: _Array,
    codes: _Array | None,
    weights: _Array | None,
    points: _Array,
    numbers: _Array,
    pull: _Array,
    near: _Array,
) -> None:
    """Add up what a block of rows tells about one point per group."""
    rows, group, weight = _grouped(rows, codes, weights)
    gaps = rows - points[group]
    distance = np.sqrt(_squares(gaps))
    np.add.at(numbers[:, 0], group, weight)
    here = (distance == 0.0) | (weight == 0.0)
    np.add.at(numbers[:, 3], group[here], weight[here])
    gaps, group, weight, distance = gaps[~here], group[~here], weight[~here], distance[~here]
    inverse = weight / distance
    np.add.at(numbers[:, 1], group, weight * distance)
    np.add.at(numbers[:, 2], group, inverse)
    np.add.at(pull, group, gaps * inverse[:, None])
    np.fmin.at(numbers[:, 4], group, distance)
    nearest = distance == numbers[group, 4]
    np.add.at(numbers[:, 5], group[nearest], weight[nearest])
    np.add.at(near, group[nearest], (gaps * inverse[:, None])[nearest])


def scale_rows(rows: _Array, origin: _Array, scale: float, most: float, found: _Array) -> None:
    """Fill the first columns with (row - origin) / scale, no value larger than `most`."""
    found[:, : len(origin)] = np.clip((rows - origin) / scale, -most, most)


def clip_rows(rows: _Array, origin: _Array, scale: float, longest: float, found: _Array) -> None:
    """Fill the first columns with (row - origin) / scale, no row longer than `longest`."""
    gaps = rows - origin
    lengths = np.sqrt(_squares(gaps))
    factors = np.fmin(np.divide(1.0, scale), longest / np.where(scale > lengths, scale, lengths))
    found[:, : len(origin)] = gaps * factors[:, None]


clip_rows_single = clip_rows


def cosines_and_sines(angles: _Array, factor: float, found: _Array) -> None:
    """Fill in the cosines of each row's angles, then the sines, times a factor."""
    angle = np.clip(angles, -1e6, 1e6)
    turns = np.rint(angle * 0.6366197723675814)
    r = (angle - turns * 1.5707963267341256) - turns * 6.077100506506192e-11
    z = r * r
    factorials = np.cumprod(np.arange(1.0, 18.0))
    sine, cosine = 1.0 / factorials[16], 1.0 / factorials[15]
    for k in range(14, 1, -2):
        sine, cosine = 1.0 / factorials[k] - z * sine, 1.0 / factorials[k - 1] - z * cosine
    sine, cosine = r - r * (z * sine), 1.0 - z * cosine
    quarter = turns - 4.0 * np.floor(turns * 0.25)
    odd, half = (quarter == 1.0) | (quarter == 3.0), angles.shape[1]
    one, other = np.where(odd, sine, cosine), np.where(odd, cosine, sine)
    found[:, :half] = np.where((quarter == 1.0) | (quarter == 2.0), -one, one) * factor
    found[:, half : 2 * half] = np.where(quarter >= 2.0, -other, other) * factor


def check_and_hash(
    rows: _Array, factors: _Array, fixed: _Array, largest: float, good: _Array, keys: _Array, marks: _Array
) -> None:
    """Find out for each row whether all of its values are ordinary numbers, and hash it twice."""
    values = rows.astype(np.float64) + 0.0
    bits = values.view(np.uint64)
    bits = bits ^ (bits >> np.uint64(32))
    good[:] = (np.abs(values) <= largest).all(axis=1)
    keys[:] = (bits * factors).sum(axis=1)
    marks[:] = np.where(good, (bits * fixed).sum(axis=1), np.uint64(0))


def running_means(
    rows: _Array, center: _Array, count: int, total: _Array, objectives: _Array, distances: _Array
) -> None:
    """Fill in how far the mean of the rows so far is from the centre, and each row; carry on the sum."""
    gaps = rows - center
    totals = np.add.accumulate(np.concatenate([total[None], gaps]))
    total[:] = totals[-1]
    distances[:] = np.sqrt(_squares(gaps))
    objectives[:] = np.sqrt(_squares(totals[1:])) / (count + 1 + np.arange(len(rows)))


def greedy(
    rows: _Array,
    center: _Array,
    start: _Array,
    squares: _Array,
    weight: float,
    gram: _Array | None,
    offsets: _Array | None,
    unit: float,
    spread: float,
    count: int,
    scores: _Array,
    theta: _Array,
    picks: _Array,
    objectives: _Array,
    distances: _Array,
) -> int:
    """Pick rows one after the other; return how many were too close to tell by their scores."""
    largest, close_calls = squares.max(), 0
    for turn in range(len(picks)):
        best = int(np.argmax(scores))
        top, slack = scores[best], unit * np.sqrt(spread)
        second = max(scores[:best].max(initial=-np.inf), scores[best + 1 :].max(initial=-np.inf))
        if second >= top - 2.0 * (slack * np.sqrt(largest) + unit * weight * largest):
            errors = slack * np.sqrt(squares) + unit * weight * squares
            least = top - slack * np.sqrt(squares[best]) - unit * weight * squares[best]
            rivals = np.flatnonzero((scores + errors >= least) | (np.arange(len(scores)) == best))
            if len(rivals) > 1:
                close_calls += 1
                gaps = rows[rivals] - center
                best = int(rivals[np.argmax(_lane_sums(gaps * theta) - weight * _squares(gaps))])
        gap = rows[best : best + 1] - center
        theta -= gap[0]
        picks[turn], distances[turn] = best, np.sqrt(_squares(gap))[0]
        objectives[turn] = np.sqrt(_squares((start - theta)[None]))[0] / (count + turn + 1)
        spread += squares[best]
        scores[best] = -np.inf
        if gram is not None:
            scores -= gram[best]
        elif offsets is not None and turn + 1 < len(picks):
            scores -= _products(offsets, offsets[best])
    return close_calls


def greedy_batches(
    rows: _Array,
    firsts: _Array,
    sizes: _Array,
    quotas: _Array,
    owners: _Array,
    centers: _Array,
    starts: _Array,
    weight: float,
    unit: float,
    largest: float,
    counts: _Array,
    thetas: _Array,
    offsets: _Array,
    squares: _Array,
    scores: _Array,
    picks: _Array,
    objectives: _Array,
    distances: _Array,
) -> int:
    """Pick rows of batches, each with the centre and the theta of its owner; return how many were done."""
    made = 0
    for batch, owner in enumerate(owners):
        own = rows[firsts[batch] : firsts[batch] + sizes[batch]]
        if not quotas[batch]:
            continue
        center, theta = centers[owner], thetas[owner]
        near = center.astype(rows.dtype)
        offset, square, score = offsets[: len(own)], squares[: len(own)], scores[: len(own)]
        offset[:] = (own - near) - (center - near).astype(rows.dtype)
        square[:] = _products(offset, offset)
        if not square.max() <= largest:
            return batch
        score[:] = -weight * square + _products(offset, theta.astype(rows.dtype))
        found = (filled[made : made + quotas[batch]] for filled in (picks, objectives, distances))
        spread = float(np.add.accumulate(theta * theta)[-1])
        carried = unit, spread, int(counts[owner]), score, theta
        greedy(own, center, starts[owner], square, weight, None, offset, *carried, *found)
        counts[owner] += quotas[batch]
        made += quotas[batch]
    return len(owners)


def spread_out(
    rows: _Array, draws: _Array, sure: float, chosen: _Array, gaps: _Array, sums: _Array, point: _Array
) -> int:
    """Draw rows, each with probability by its squared distance to those before; return how many there are."""
    gaps[:], sums[:] = np.inf, 0.0
    room = np.zeros(len(sums) * _GAP_ROWS)
    blocks, lower = room.reshape(len(sums), _GAP_ROWS), np.zeros(len(room), np.bool_)
    for made in range(1, len(chosen)):
        point[:] = rows[chosen[made - 1]]
        exact = _squares(rows - point)
        lower[: len(rows)] = exact < gaps
        gaps[:] = np.where(exact < gaps, exact, gaps)
        room[: len(rows)] = gaps
        changed = lower.reshape(blocks.shape).any(axis=1)
        sums[changed] = np.add.accumulate(blocks[changed], axis=1)[:, -1]
        totals = np.add.accumulate(sums)
        if totals[-1] == 0.0:
            return made
        wanted = draws[made - 1] * totals[-1]
        block = int(np.searchsorted(totals[:-1], wanted, side="right"))
        before = totals[block - 1] if block else 0.0
        while block > 0 and sums[block] == 0.0:
            block -= 1
        among = np.flatnonzero(blocks[block] > 0.0)
        passed = np.add.accumulate(np.concatenate([[before], blocks[block][among]]))[1:] > wanted
        last = int(np.argmax(passed)) if passed.any() else len(among) - 1
        chosen[made] = block * _GAP_ROWS + among[last] if len(among) else 0
    return len(chosen)


def _two_least(values: _Array) -> tuple[_Array, _Array, _Array]:
    """Return by row where the least of some values is, itself, and the least of the others."""
    n_rows, whole = len(values), values.shape[1] // _LANES * _LANES
    least = np.full((n_rows, _LANES), np.inf, values.dtype)
    second, place = least.copy(), np.zeros((n_rows, _LANES), np.int64)
    for first in range(0, whole, _LANES):
        value = values[:, first : first + _LANES]
        other = np.where(least > value, least, value)
        second = np.where(other < second, other, second)
        place = np.where(value < least, first, place)
        least = np.where(least < value, least, value)
    at, top = np.zeros(n_rows, np.int64), np.full(n_rows, np.inf, values.dtype)
    rest = top.copy()
    columns = [(place[:, j] + j, least[:, j], second[:, j]) for j in range(_LANES)]
    columns += [(np.full(n_rows, i), values[:, i], top) for i in range(whole, values.shape[1])]
    for here, value, other in columns:
        less = value < top
        others = np.where(other < top, other, top)
        rest = np.where(less, others, np.where(value < rest, value, rest))
        at, top = np.where(less, here, at), np.where(less, value, top)
    return at, top, rest


def nearest_points(
    products: _Array, sizes: _Array, errors: _Array, found: _Array, unsure: _Array, least: _Array
) -> None:
    """Fill in the point nearest to each row, the first of those too close to tell, and who has rivals."""
    values = products * products.dtype.type(-2) + sizes
    found[:], least[:], second = _two_least(values)
    limit = least + 2.0 * errors
    unsure[:] = ~(second > limit)
    close = values <= limit[:, None]
    again = unsure & close.any(axis=1)
    found[again] = close[again].argmax(axis=1)


def _powers(x: _Array, factor: Any, bias: _Array) -> tuple[_Array, _Array]:
    """Return e^(factor * x + bias) of each row, divided by the largest of the row, and their sums."""
    single = x.dtype == np.float32
    digits, terms, least = (23, 7, -80) if single else (52, 13, -700)
    whole = x.dtype.type(1.5 * 2.0**digits + (127 if single else 1023))
    logarithm, rest = (
        ("0x1.63p-1", "-0x1.bd0106p-13") if single else ("0x1.62e42feep-1", "0x1.a39ef35793c76p-33")
    )
    value = x * factor + bias
    value = np.maximum(value - value.max(axis=1, keepdims=True), x.dtype.type(least))
    moved = value * x.dtype.type(1.4426950408889634) + whole
    k = moved - whole
    r = (value - k * x.dtype.type(float.fromhex(logarithm))) - k * x.dtype.type(float.fromhex(rest))
    factorials = np.cumprod(np.r_[1.0, 1.0:14.0])
    total = np.full_like(r, 1.0 / factorials[terms])
    for term in range(terms - 1, -1, -1):
        total = total * r + x.dtype.type(1.0 / factorials[term])
    found = total * (moved.view(f"i{x.itemsize}") << digits).view(x.dtype)
    return found, _lane_sums(found, 64 // x.itemsize)


def judge_labels(
    scores: _Array,
    codes: _Array,
    factors: _Array,
    bias: _Array,
    weights: _Array,
    given: _Array,
    right: _Array,
    empty: _Array,
    memory: _Array,
    wrong: _Array,
    suggested: _Array,
    likely: _Array,
    outside: _Array,
    evidence: _Array,
    probability: _Array,
) -> None:
    """Fill in what a noise model concludes of rows from their scores and given classes."""
    (n_rows, n_classes), place = scores.shape, np.arange(len(scores))
    own = np.zeros((n_rows, bias.shape[1]), scores.dtype)
    own[:, :n_classes] = scores
    part, total = _powers(own, factors[0], bias[0])
    probability[:] = part[place, codes] / total
    evidence[:] = 0.0
    joint = np.zeros_like(own)
    for at, weight in enumerate(weights):
        part, total = _powers(own, factors[at + 1], bias[at + 1])
        mine, none = part[place, codes] * right[at, codes], part[:, n_classes] * empty[at, codes]
        part *= given[at, codes if given.shape[1] > 1 else 0]
        if given.shape[1] == 1:
            part[place, codes], part[:, n_classes] = mine, none
        every = _lane_sums(part, 64 // scores.itemsize)
        evidence += weight * (every / total).astype(np.float64)
        joint += part * (weight / every.astype(np.float64)).astype(scores.dtype)[:, None]
    wrong[:] = np.maximum(1.0 - joint[place, codes].astype(np.float64), 0.0)
    outside[:] = joint[:, n_classes]
    joint[place, codes] = joint[:, n_classes] = -1.0
    suggested[:] = joint[:, :n_classes].argmax(axis=1)
    likely[:] = np.maximum(joint[place, suggested], 0.0)


def noise_step(
    likelihood: _Array,
    codes: _Array,
    odds: _Array,
    given: _Array,
    right: _Array,
    empty: _Array,
    memory: _Array,
    expected: _Array,
    squares: _Array,
    truth: _Array,
    own: _Array,
    counts: _Array | None,
    totals: _Array,
) -> None:
    """Take one step of expectation maximisation of a noise model."""
    place, n_classes, lanes = np.arange(len(codes)), len(right), 64 // likelihood.itemsize
    part = likelihood * odds
    part *= (1 / _lane_sums(part, lanes))[:, None]
    expected[:], squares[:] = np.add.reduce(part), np.add.reduce(part * part)
    mine, none = part[place, codes] * right[codes], part[:, n_classes] * empty[codes]
    part *= given[codes if len(given) > 1 else 0]
    if len(given) == 1:
        part[place, codes], part[:, n_classes] = mine, none
    totals[:] = _lane_sums(part, lanes)
    part *= (1 / totals)[:, None]
    truth[:], own[:] = np.add.reduce(part), 0.0
    np.add.at(own, codes, part[place, codes])
    if counts is not None:
        counts[:] = 0.0
        np.add.at(counts, codes, part)
