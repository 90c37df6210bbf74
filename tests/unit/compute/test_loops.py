"""The compiled loops against their twins in NumPy, what they refuse, and how they are built and found."""

import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import gmmatch
from gmmatch.compute import kernels, loops

ROOT = Path(__file__).parents[3]
KINDS = [np.float32, np.float64]


@pytest.fixture
def hook(tmp_path, monkeypatch):
    """The module `hatch_build.py`, for sources that nobody has built yet."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LOOPS", tmp_path)
    for name in ("loops.c", "rows.h"):
        (tmp_path / name).write_bytes((loops.FOLDER / name).read_bytes())
    return module


def builds():
    """The builds in the package that this processor runs."""
    level = loops.load(loops.FOLDER / f"base{loops.SUFFIX}").level()
    return {name: loops.load(loops.FOLDER / f"{name}{loops.SUFFIX}") for name in loops.BUILDS[: level + 1]}


def cases(seed, kind):
    """Yield calls of every loop on made-up numbers, with ties, equal rows and odd sizes among them."""
    rng = np.random.default_rng(seed)
    n, d, g = (
        int(rng.integers(1, 300)),
        int(rng.choice([1, 2, 7, 31, 32, 33, 64, 75, 130])),
        int(rng.integers(1, 70)),
    )
    scale = float(rng.choice([1e-3, 1.0, 1e3]))
    rows = rng.normal(size=(n, d))
    if seed % 2:
        rows = np.round(rows)
    if seed % 3 == 0:
        rows[rng.integers(0, n, n // 2)] = rows[0]
    rows = (scale * rows).astype(kind)
    points = scale * rng.normal(size=(g, d))
    points[0] = rows[0]
    codes, weights = rng.integers(-1, g, n), rng.random(n) * (rng.random(n) > 0.1)
    numbers = np.zeros((g, 6))
    numbers[:, 4] = np.inf
    for code, weight in ((codes, weights), (codes, None), (None, weights), (None, None)):
        yield "group_distances", rows, code, points, np.empty(n)
        yield "group_sums", rows, code, weight, np.ones((g, d)), np.ones(g)
        yield "median_sums", rows, code, weight, points, numbers, np.zeros((g, d)), np.zeros((g, d))
    yield "scale_rows", rows, points[0], 0.7 * scale, 1.3, np.zeros((n, d + 2), np.float32)
    yield "clip_rows", rows, points[0], 0.7 * scale, 1.3, np.zeros((n, d + 2))
    yield "clip_rows_single", rows, points[0], 0.7 * scale, 1.3, np.zeros((n, d + 2), np.float32)
    yield (
        "cosines_and_sines",
        rng.normal(size=(n, d)) * rng.choice([1.0, 1e5, 1e7]),
        0.3,
        np.zeros((n, 2 * d)),
    )
    odd = rows.copy()
    odd[0, 0] = rng.choice([np.nan, np.inf, -0.0, 1e30])
    factors = rng.integers(0, 2**64, d, dtype=np.uint64)
    keys = np.empty(n, np.uint64)
    yield "check_and_hash", odd, factors, factors[::-1], 1e20, np.empty(n, bool), keys, keys
    yield "running_means", rows, points[0], 3, np.ones(d), np.empty(n), np.empty(n)
    memory = np.empty(n), np.empty(-(-n // 256)), np.empty(d)
    yield "spread_out", rows, rng.random(9), 0.999, np.full(10, n - 1), *memory
    few = points.astype(kind)
    products, sizes, errors = rows @ few.T, (few * few).sum(axis=1), scale**2 * 0.01 * rng.random(n)
    yield "nearest_points", products, sizes, errors, np.empty(n, np.int64), np.empty(n, bool), np.empty(n)
    own, parts, width = rng.integers(0, d, n), int(rng.integers(1, 4)), -(-(d + 1) // 16) * 16
    bias = rng.normal(size=(parts + 1, width)).astype(kind)
    bias[0, d:] = bias[:, d + 1 :] = -np.inf
    columns = [np.empty(n, np.int64 if place == 1 else float) for place in range(6)]
    for lines in (1, d):
        given = np.zeros((parts, lines, width), kind)
        given[..., : d + 1] = rng.random((parts, lines, d + 1)) + 1e-3
        told = (1.0 + rng.random(parts + 1)).astype(kind), bias, rng.random(parts), given
        right, other = rng.random((2, parts, d)).astype(kind)
        memory = np.empty((3, width), kind)
        yield "judge_labels", rows, own, *told, right, other, memory, *columns
        sums = [np.empty(width, kind) for _ in range(4)]
        likely, odds = rng.random((n, width)).astype(kind), rng.random(width).astype(kind)
        seen = None if lines == 1 else np.empty((d, width), kind)
        told = likely, own, odds, given[0], right[0], other[0], *sums, np.empty(d, kind), seen
        yield "noise_step", *told, np.empty(n, kind)
    center, quota = rows.mean(axis=0, dtype=float), int(rng.integers(1, n + 1))
    offsets = (rows - center).astype(kind)
    gram = offsets @ offsets.T
    squares = np.diagonal(gram).astype(float)
    scores = (offsets @ points[0].astype(kind) - 0.5 * squares).astype(float)
    filled = np.zeros(quota, np.int64), np.zeros(quota), np.zeros(quota)
    told = 1e-4, float(points[0] @ points[0]), 2, scores, points[0].copy()
    yield "greedy", rows, center, points[0], squares, 0.5, gram, None, *told, *filled
    yield "greedy", rows, center, points[0], squares, 0.0, None, offsets, *told, *filled
    ends = np.unique(np.r_[rng.integers(1, n + 1, 4), n])
    lengths = np.diff(ends, prepend=0)
    quotas = np.array([int(rng.integers(0, length + 1)) for length in lengths])
    owners, owned = rng.integers(0, g, len(lengths)), np.zeros(g, np.int64)
    memory = np.zeros((lengths.max() + 2, d), kind), np.zeros(lengths.max()), np.zeros(lengths.max())
    filled = np.zeros(quotas.sum(), np.int64), np.zeros(quotas.sum()), np.zeros(quotas.sum())
    told = 0.5, 1e-4, float(rng.choice([np.inf, 3.0 * d * scale**2])), owned, points + 1.0
    batches = ends - lengths, lengths, quotas, owners, points, points[::-1]
    yield "greedy_batches", rows, *batches, *told, *memory, *filled


def outcome(build, loop, given):
    """What a call returns and all arrays after it, as bits; not what is only memory."""
    given = [value.copy() if isinstance(value, np.ndarray) else value for value in given]
    found = loops.call(build, loop, *given)
    if loop == "greedy_batches":
        done = int(given[3][:found].sum())
        given = [*given[:12], *(filled[:done] for filled in given[15:])]
    if loop in ("judge_labels", "noise_step"):
        del given[8 if loop == "judge_labels" else 6]
    returned = found if loop in ("greedy", "greedy_batches", "spread_out") else None
    return returned, [value.tobytes() for value in given if isinstance(value, np.ndarray)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", loops.BUILDS)
def test_every_loop_fills_in_the_bits_of_its_twin(name, kind):
    build = builds().get(name)
    if build is None:
        pytest.skip("this processor does not run it")
    seen = set()
    for seed in range(24):
        for loop, *given in cases(seed, kind):
            seen.add(loop)
            assert outcome(build, loop, given) == outcome(None, loop, given), (loop, seed)
    assert seen == set(loops._LOOPS)


def test_a_selection_without_compiled_loops_is_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(600, 12)).astype(np.float32), rng.integers(0, 3, 600)
    rows[:, :3] += 2.0 * np.eye(3)[labels]
    compiled = gmmatch.select(rows, keep=0.2, labels=labels)
    monkeypatch.setattr(loops, "library", lambda: None)
    plain = gmmatch.select(rows, keep=0.2, labels=labels)
    for name in ("indices", "scores", "distances"):
        assert getattr(plain, name).tobytes() == getattr(compiled, name).tobytes()


ROWS, POINTS = np.ones((4, 3), np.float32), np.ones((2, 3))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((ROWS, None, np.ones((2, 4)), np.empty(4)), r"points is of shape \(2, 4\)"),
        ((ROWS, None, np.ones(3), np.empty(4)), r"points is of shape \(3,\)"),
        ((ROWS, np.zeros(5, np.int64), POINTS, np.empty(4)), r"codes is of shape \(5,\)"),
        ((ROWS, np.zeros(4), POINTS, np.empty(4)), "codes must be int64; got float64"),
        ((ROWS.astype(complex), None, POINTS, np.empty(4)), "rows must be float64; got complex128"),
        ((ROWS, None, POINTS, np.empty(5)), r"found is of shape \(5,\)"),
        ((ROWS, None, POINTS, np.empty(4, np.float32)), "found must be a writable float64 array in C order"),
        ((ROWS, None, POINTS, np.empty(8)[::2]), "found must be a writable float64 array in C order"),
        ((ROWS, None, POINTS, [0.0] * 4), "found must be a writable float64 array in C order"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_pointer_is_passed(given, said):
    with pytest.raises((TypeError, ValueError), match=said):
        loops.run("group_distances", *given)


@pytest.mark.parametrize(
    "call",
    [
        lambda: kernels.group_distances(ROWS, None, POINTS[:0]),
        lambda: kernels.group_sums(ROWS, np.array([0, 1, 2, 3]), 3),
        lambda: kernels.median_sums(ROWS, np.array([0, 1, 2, -1]), None, POINTS),
        lambda: kernels.scale_rows(ROWS, POINTS[0], 1.0, 1.0, np.empty((4, 2), np.float32)),
        lambda: kernels.cosines_and_sines(POINTS, 1.0, np.empty((2, 5))),
        lambda: kernels.spread_out(ROWS, 4, np.ones(2)),
    ],
)
def test_what_would_be_read_beyond_the_end_is_refused(call):
    with pytest.raises(IndexError, match="beyond the end of an array"):
        call()


def fresh_library(folder, monkeypatch):
    monkeypatch.setattr(loops, "FOLDER", folder)
    return loops.library.__wrapped__()


@pytest.mark.parametrize("fault", ["is missing", "was built from other sources", "base"])
def test_a_build_that_does_not_do_is_told_and_numpy_does_the_work(tmp_path, monkeypatch, fault):
    for name in ("loops.c", "rows.h"):
        (tmp_path / name).write_bytes((loops.FOLDER / name).read_bytes())
    file = tmp_path / f"base{loops.SUFFIX}"
    if fault == "was built from other sources":
        file.write_bytes((loops.FOLDER / file.name).read_bytes())
        (tmp_path / "rows.h").write_text("/* changed */")
    elif fault == "base":
        file.write_bytes(b"no library")
    with pytest.warns(RuntimeWarning, match=f"many times slower: .*{fault}.*install gmmatch again"):
        assert fresh_library(tmp_path, monkeypatch) is None


def test_the_package_has_builds_that_load_without_a_word(monkeypatch):
    with warnings.catch_warnings(action="error"):
        assert fresh_library(loops.FOLDER, monkeypatch) is not None


@pytest.mark.slow
def test_a_build_passes_its_self_test_and_is_made_again_when_the_sources_change(hook, tmp_path, capsys):
    if not hook.compilers():
        pytest.skip("no compiler is there")
    (base, *_) = hook.build(tmp_path)
    assert base == tmp_path / f"base{loops.SUFFIX}"
    made = base.stat().st_mtime_ns
    hook.build(tmp_path)
    assert base.stat().st_mtime_ns == made
    with (tmp_path / "rows.h").open("a") as file:
        file.write("/* changed */")
    hook.build(tmp_path)
    assert base.stat().st_mtime_ns > made
    assert sorted(file.suffix for file in tmp_path.iterdir() if file not in hook.outputs(tmp_path)) == [
        ".c",
        ".h",
    ]
    (tmp_path / "loops.c").write_text("no program")
    assert hook.build(tmp_path) == []
    assert "does not build the loops" in capsys.readouterr().err


@pytest.mark.slow
def test_a_build_that_reorders_sums_is_refused(hook, tmp_path):
    if not hook.compilers():
        pytest.skip("no compiler is there")
    files = [tmp_path / f"base{loops.SUFFIX}"]
    flags = [flag.replace("-ffp-contract=off", "-ffast-math") for flag in hook.FLAGS]
    hook.compile_loops(hook.compilers()[0], files, flags=flags)
    with pytest.raises(OSError, match="fails its self-test"):
        hook.check(files)


@pytest.mark.parametrize(
    ("target", "machine", "expected"),
    [("wheel", "x86_64", ["ziglang>=0.13"]), ("wheel", "s390x", []), ("sdist", "x86_64", [])],
)
def test_without_a_compiler_the_hook_asks_for_one_that_installs(hook, monkeypatch, target, machine, expected):
    monkeypatch.setattr(hook, "compilers", list)
    monkeypatch.setattr(hook.platform, "machine", lambda: machine)
    monkeypatch.setattr(hook.CustomBuildHook, "target_name", target, raising=False)
    assert hook.CustomBuildHook.__new__(hook.CustomBuildHook).dependencies() == expected


def test_nothing_is_compiled_and_no_compiler_imported_at_run_time():
    code = "import sys, gmmatch.compute.kernels as k; assert not {'numba', 'ziglang'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
