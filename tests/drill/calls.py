"""Calls with arguments of every kind: rows, labels, budgets and parameters that hypothesis makes up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gmmatch
from gmmatch import corrupt
from gmmatch.selectors import find_method

WITHOUT = ("forgetting", "el2n", "grand", "optimization", "top-scores")  # these need a training run or scores
METHODS = [name for name in gmmatch.methods() if name not in WITHOUT]
OPTIONS = {"guard", "budgets", "on_bad_rows", "unlabelled", "memory", "all_rows", "output"}
NUMBERS = ["float16", "float32", "float64", "int8", "uint16", "int64", "bool", ">f4", ">f8"]

ordinary = st.floats(-100, 100, width=32)
extreme = st.sampled_from(
    [0.0, -0.0, 1e-300, 1e-160, 1e-45, 1e30, 1e130, -1e139, 1e141, np.inf, -np.inf, np.nan]
)
words = st.sampled_from(["a", "b", " ", "nan", "1", "é", "=1", "x\ny"])
others = st.sampled_from(
    [None, 3, "x", b"x", [], [[]], [[1], [1, 2]], {}, np.zeros(3), np.zeros((2, 2, 2)), object()]
)
# Two calls in three have arguments that are all in order, however odd; the others may have any.
fairness = st.sampled_from([True, True, False])


@st.composite
def rows(draw: Any, fair: bool) -> Any:
    """Rows of numbers of any type: spread, copied, scaled, with holes, or of other kinds altogether."""
    least = 1 if fair else 0
    n, d = draw(st.integers(least, 40)), draw(st.integers(least, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(
        st.sampled_from(["normal", "grid", "few", "list"] + ([] if fair else ["drawn", "masked", "other"]))
    )
    if kind == "other":
        return draw(others)
    made = rng.normal(size=(n, d))
    if kind == "grid":
        made = rng.integers(-1, 2, (n, d)).astype(float)
    elif kind == "few" and n:
        made = made[rng.integers(0, min(n, 2), n)]
    elif kind == "drawn":
        made = draw(hnp.arrays(np.float64, (n, d), elements=st.one_of(ordinary, extreme)))
    with np.errstate(all="ignore"):
        made = made * draw(st.sampled_from([1.0, 1.0, 1e-30, 1e30] + ([] if fair else [1e-200, 1e130])))
        made = made + draw(st.sampled_from([0.0, 0.0, 1.0, 1e6]))
        if kind != "list" and draw(st.booleans()):
            made = np.nan_to_num(np.clip(made, -9e4, 9e4)).astype(draw(st.sampled_from(NUMBERS)))
    if kind == "masked":
        return np.ma.masked_array(made, rng.random(made.shape) < 0.1)
    return made.tolist() if kind == "list" else made


@st.composite
def labels(draw: Any, n: int, fair: bool) -> Any:
    """Labels of any kind: balanced, one class, one per row, missing, of mixed types, of another length."""
    length = n if fair else draw(st.integers(0, n + 3))
    unfair = [] if fair else ["mixed", "floats", "missing"]
    kind = draw(st.sampled_from(["none", "few", "few", "one", "each", "texts", "large", *unfair]))
    if kind == "none":
        return None
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if kind in ("few", "one", "each"):
        return np.arange(length) if kind == "each" else rng.integers(0, 3 if kind == "few" else 1, length)
    pools: dict[str, Any] = {
        "texts": words,
        "mixed": st.one_of(words, st.integers(-3, 3), st.none(), st.booleans(), st.just("a\0")),
        "floats": st.sampled_from([0.0, 1.0, 1.5, np.nan]),
        "large": st.sampled_from([2**53, 2**53 + 1, -1] if fair else [2**53, 2**63, 10**30, -1]),
        "missing": st.sampled_from([0, 1, None, ""]),
    }
    found = draw(st.lists(pools[kind], min_size=length, max_size=length))
    return found if draw(st.booleans()) else np.array(found, dtype=object)


def pick(fair: bool, right: list[Any], wrong: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(right if fair else right + wrong)


def keeps(fair: bool) -> st.SearchStrategy[Any]:
    wrong = [0, -1, 1.5, "x", "²", "--1", None, True, np.nan, 10**20]
    return pick(
        fair, [1, 0.5, 1.0, "10%", 0.1, "99%", np.float32(0.3), np.float64(0.7)], [*wrong, 2, 5, np.int8(3)]
    )


def seeds(fair: bool) -> st.SearchStrategy[Any]:
    return pick(fair, [0, 0, 1, 2**40, None], [-1, "x", 1.5])


def params(fair: bool) -> st.SearchStrategy[dict[str, Any]]:
    shared = {
        "guard": pick(fair, ["auto", "off"], ["x", None]),
        "budgets": pick(fair, ["proportional", "sqrt", "equal"], [{0: 1, 1: 2, 2: 1}, {}, 7]),
        "by_class": pick(fair, [True, False], [1, "x"]),
        "on_bad_rows": pick(fair, ["error", "drop"], ["x"]),
        "unlabelled": pick(fair, ["error", "class"], ["x"]),
        "memory": pick(fair, [None, "1GB", 2 * 10**9], ["x", -1, 10**6]),
        "all_rows": pick(fair, [False], [True]),
    }
    own = {
        "step": pick(fair, ["residual", "projection"], [3]),
        "center": pick(fair, ["auto", "mean", "geometric-median", "huber"], ["x"]),
        "batch_size": pick(fair, ["auto", None, 1, 4], [0]),
        "streams": pick(fair, ["auto", 1, 3, 10**7], [0]),
        "clusters": pick(fair, ["auto", "off", 3], [0]),
        "fourier_features": pick(fair, ["auto", "off", 8], [-1]),
    }
    return st.fixed_dictionaries({}, optional=shared | (own if fair else own | {"resume": st.just(True)}))


def length_of(x: Any) -> int:
    try:
        return len(x)
    except TypeError:
        return 5


def known(method: str) -> set[str]:
    """Return the options that a method takes."""
    entry = find_method(method)
    return OPTIONS | (set(entry.selector().get_params(deep=False)) - set(entry.fixed))


def select(data: st.DataObject, folder: Path) -> None:
    fair = data.draw(fairness)
    x = data.draw(rows(fair))
    y = data.draw(labels(length_of(x), fair))
    options = data.draw(params(fair))
    method = data.draw(st.sampled_from(METHODS))
    keep = data.draw(keeps(fair))
    if fair:
        options = {name: value for name, value in options.items() if name in known(method)}
        if y is not None:  # every class has at least one pick
            keep = data.draw(st.sampled_from([0.9, 1.0, "99%", len(x)]))
    if data.draw(st.integers(0, 3)) == 0:
        name = data.draw(pick(fair, ["k.parquet", "k.csv", "k.npy", "k.txt"], ["k.x"]))
        options["output"] = folder / name
    random_state = data.draw(seeds(fair))
    found = gmmatch.select(x, keep=keep, labels=y, method=method, random_state=random_state, **options)
    n = len(x)
    assert found.n_rows == n
    assert 1 <= len(found) <= n
    assert len(np.unique(found.indices)) == len(found)
    assert found.indices.min() >= 0
    assert found.indices.max() < n
    assert len(found.scores) == len(found.distances) == len(found)
    assert np.isfinite(found.distances).all() or found.centers is None
    assert np.isfinite(found.objective) or found.info.objective is None
    assert found.tiers is None or (len(found.tiers) == n and np.isin(found.tiers, (0, 1, 2)).all())
    left = {file.name for file in folder.iterdir()} - {Path(options.get("output", "x")).name}
    assert not left


def suspects(data: st.DataObject, folder: Path) -> None:
    fair = data.draw(fairness)
    x = data.draw(rows(fair))
    y = data.draw(labels(length_of(x), fair))
    found = gmmatch.suspects(x, y, random_state=data.draw(seeds(fair)))
    assert sorted(found.rows.tolist()) == list(range(len(x)))
    assert ((found.suspicion >= 0) & (found.suspicion <= 1)).all()


def median(data: st.DataObject, folder: Path) -> None:
    fair = data.draw(fairness)
    x = data.draw(rows(fair))
    n = length_of(x)
    weights = data.draw(
        st.one_of(
            st.none(),
            hnp.arrays(np.float64, n, elements=pick(fair, [1.0, 3.0, 1e-170, 1e200], [0.0, np.nan, -1.0])),
        )
    )
    epsilon = data.draw(pick(fair, [1e-6, 1e-3, 0.5], [0, -1, "x", np.nan]))
    found = gmmatch.geometric_median(x, epsilon, weights, random_state=data.draw(seeds(fair)))
    points = np.asarray(x, dtype=np.float64)
    assert found.point.shape == points.shape[1:]
    assert np.isfinite(found.point).all()
    assert found.epsilon >= 0
    # The certificate holds against the best of the points themselves.
    scale = np.abs(points).max() or 1.0
    near = np.ones(len(points)) if weights is None else np.asarray(weights, np.float64) / np.max(weights)
    best = min(near @ np.linalg.norm((points - p) / scale, axis=1) for p in points)
    here = near @ np.linalg.norm((points - found.point) / scale, axis=1)
    assert here <= best * (1 + found.epsilon) * (1 + 1e-9) + 1e-12


def damage(data: st.DataObject, folder: Path) -> None:
    fair = data.draw(fairness)
    share = data.draw(pick(fair, [0, 0.2, 0.5, 1.0], [-1, 2, "x", np.nan, None]))
    rng = data.draw(seeds(fair))
    kind = data.draw(st.sampled_from(["images", "labels", "rows"]))
    if kind == "images":
        shape = data.draw(pick(fair, [(3, 8, 8), (2, 8, 8, 3)], [(0, 4, 4), (2, 1, 1), (2, 8, 8, 7), (4,)]))
        kept = data.draw(pick(fair, ["uint8"], ["float32"]))
        x = np.random.default_rng(0).integers(0, 256, shape).astype(kept)
        names = data.draw(pick(fair, [None, "fog", ["fog", "occlusion"]], ["x", []]))
        severity = data.draw(pick(fair, [1, 3, 5], [0, "x"]))
        changed, mask = corrupt.corrupt_images(x, share=share, kinds=names, severity=severity, rng=rng)
    elif kind == "labels":
        x = data.draw(labels(data.draw(st.integers(0, 12)), fair))
        name = data.draw(pick(fair, ["symmetric", "pair"], ["matrix", "instance", "x"]))
        changed, mask = corrupt.corrupt_labels(x, share=share, kind=name, rng=rng)
    else:
        x = data.draw(rows(fair))
        name = data.draw(pick(fair, ["far-cluster", "outliers", "sign-flip"], ["other-class", "x"]))
        changed, mask = corrupt.contaminate(x, share=share, kind=name, rng=rng)
    assert len(changed) == len(mask) == len(x)
    assert mask.dtype == bool
    if share is not None:
        assert int(mask.sum()) == int(np.floor(share * len(x) + 0.5)) or kind == "images"


KINDS: dict[str, Callable[[st.DataObject, Path], None]] = {
    "select": select, "suspects": suspects, "geometric_median": median, "corrupt": damage,
}  # fmt: skip


def run(kind: str, number: int, count: int, around: Callable[[Callable[[Path], None]], None]) -> None:
    """Make calls with arguments drawn by a seed; `around` runs each of them, within its limits."""

    @seed(number)
    @settings(
        max_examples=count, phases=[Phase.generate, Phase.shrink], database=None, deadline=None,
        suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
    )  # fmt: skip
    @given(st.data())
    def test(data: st.DataObject) -> None:
        around(lambda folder: KINDS[kind](data, folder))

    test()
