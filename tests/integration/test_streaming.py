"""One-pass selection: the same picks wherever the rows are, after any kill, in any order of the file."""

import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import gmmatch
from gmmatch import run as runs
from gmmatch.cli import app
from gmmatch.compute import blocks
from gmmatch.data import spill
from gmmatch.data.formats.arrow import Decoder
from gmmatch.matching import batches
from gmmatch.matching import pick as picking
from gmmatch.matching.budgets import class_budgets

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(20_000, 24)).astype(np.float32) + RNG.normal(size=24).astype(np.float32)
LABELS = RNG.integers(0, 3, 20_000)
PARAMS = {"keep": 0.1, "batch_size": 128, "random_state": 5, "guard": "off"}


@pytest.fixture
def small_windows(monkeypatch):
    """Windows of a few thousand rows, so that 20,000 rows are many of them, as on disk."""
    monkeypatch.setattr(batches, "_MOST_BLOCKS", 16)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.usefixtures("small_windows")
def test_the_same_picks_from_memory_files_shards_and_parquet(labelled, tmp_path):
    labels = LABELS if labelled else None
    expected = gmmatch.select(ROWS, labels=labels, **PARAMS)
    assert len(np.unique(expected.indices)) == 2000
    np.save(tmp_path / "rows.npy", ROWS)
    for number, start in enumerate(range(0, len(ROWS), 3_333)):
        (tmp_path / "shards").mkdir(exist_ok=True)
        np.save(tmp_path / "shards" / f"{number}.npy", ROWS[start : start + 3_333])
    values = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 24)
    pq.write_table(pa.table({"vector": values}), tmp_path / "rows.parquet", row_group_size=7_000)
    for name in ("rows.npy", "shards", "rows.parquet"):
        source = gmmatch.open(tmp_path / name, memory=1 << 20)
        picked = gmmatch.select(source, labels=labels, **PARAMS)
        assert picked.indices.tolist() == expected.indices.tolist(), name
        assert picked.scores.tolist() == expected.scores.tolist()
        assert picked.epsilon == expected.epsilon <= 1e-3


@pytest.mark.usefixtures("small_windows")
def test_the_number_of_threads_does_not_matter(monkeypatch):
    results = []
    for threads in (1, 3):
        monkeypatch.setattr(blocks.os, "cpu_count", lambda threads=threads: threads)
        with threadpool_limits(threads):
            results.append(gmmatch.select(ROWS, labels=LABELS, **PARAMS))
    assert results[0].indices.tolist() == results[1].indices.tolist()
    assert results[0].objective == results[1].objective


@pytest.mark.usefixtures("small_windows")
def test_budgets_are_exact_with_any_number_of_streams():
    labels = np.where(np.arange(20_000) < 50, 0, 1 + LABELS)
    for streams in (1, 2, 7):
        picked = gmmatch.select(ROWS, labels=labels, streams=streams, **PARAMS)
        assert len(picked) == len(np.unique(picked.indices)) == 2000
        counts = np.bincount(labels[picked.indices])
        assert counts.tolist() == class_budgets(np.bincount(labels), 2000).tolist()


def test_streams_are_chains_of_their_own():
    rows = ROWS[:1000]
    params = PARAMS | {"keep": 200, "batch_size": 100}
    center = gmmatch.geometric_median(rows).point
    two = gmmatch.select(rows, streams=2, center=center, **params)
    order = np.concatenate(list(batches.windows(1000, 24, seed=5)))
    turns = order.reshape(10, 100)
    mine = [turns[:5].ravel(), turns[5:].ravel()]
    for chain in mine:
        inside = np.isin(two.indices, chain)
        assert inside.sum() == 100
        means = np.cumsum(rows[two.indices[inside]], axis=0, dtype=float) / np.arange(1, 101)[:, None]
        np.testing.assert_allclose(two.scores[inside], np.linalg.norm(means - center, axis=1), atol=1e-6)
    total = rows[two.indices].mean(axis=0, dtype=float)
    assert two.objective == pytest.approx(np.linalg.norm(total - center), abs=1e-6)


@pytest.mark.usefixtures("small_windows")
def test_a_file_sorted_by_corruption_does_no_harm():
    clean = RNG.normal(size=(14_000, 16))
    rows = np.concatenate([clean, RNG.normal(size=(6_000, 16)) + 1.5]).astype(np.float32)
    bad = np.arange(20_000) >= 14_000
    shuffle = RNG.permutation(20_000)
    shares = [
        bad[chosen][gmmatch.select(rows[chosen], **PARAMS).indices].mean()
        for chosen in (np.arange(20_000), shuffle)
    ]
    assert abs(shares[0] - shares[1]) <= 0.01


@pytest.mark.usefixtures("small_windows")
def test_the_median_of_a_large_file_is_certified():
    picked = gmmatch.GMMatching(**PARAMS).fit(ROWS, LABELS)
    assert picked.selection_.epsilon <= 1e-3
    for label, center in enumerate(picked.centers_):
        rows = ROWS[label == LABELS].astype(float)
        exact = gmmatch.geometric_median(rows)
        excess = np.linalg.norm(rows - center, axis=1).sum() / exact.objective - 1
        assert excess <= picked.selection_.epsilon


def test_bad_rows_are_refused_or_left_out(tmp_path, monkeypatch):
    rows = ROWS[:2000].copy()
    rows[[3, 77], 2] = np.nan
    rows[1999, 0] = np.inf
    np.save(tmp_path / "rows.npy", rows)
    monkeypatch.chdir(tmp_path)
    words = ["select", "rows.npy", "--keep", "100", "--json", "-o", "kept.parquet"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 3
    assert "rows.npy has NaN" in done.stderr
    assert "in 3 rows (first: 3, 77, 1999)" in done.stderr
    assert not (tmp_path / "kept.parquet").exists()
    for extra in ([], ["--param", "batch_size=128"]):
        done = CliRunner().invoke(app, [*words, "--overwrite", "--on-bad-rows", "drop", *extra])
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["bad_rows"] == 3
        kept = gmmatch.load_selection(tmp_path / "kept.parquet")
        assert len(kept) == 100
        assert not np.isin(kept.indices, [3, 77, 1999]).any()


@pytest.fixture
def rows_file(tmp_path):
    """Enough rows that a run takes some seconds and several windows."""
    rows = np.random.default_rng(1).normal(size=(250_000, 48)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    return tmp_path


OPTIONS = "--keep 20% --param batch_size=128 --no-guard --resume -o kept.parquet"
COMMAND = ["select", "rows.npy", *OPTIONS.split()]


def start(folder, *more):
    command = [sys.executable, "-m", "gmmatch", *COMMAND, *more]
    # A shell may have told its background jobs to ignore interrupts; a user's terminal has not.
    listen = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, preexec_fn=listen)


def finish(folder):
    run = start(folder)
    run.communicate()
    return run.returncode


def saved_at(folder):
    """Return when the state was saved last, or None."""
    try:
        return (folder / "kept.parquet.state").stat().st_mtime_ns
    except FileNotFoundError:
        return None


@pytest.mark.slow
def test_killed_at_ten_random_moments_and_resumed_it_gives_the_same_bytes(rows_file):
    started = time.monotonic()
    assert finish(rows_file) == 0
    duration = time.monotonic() - started
    expected = (rows_file / "kept.parquet").read_bytes()
    (rows_file / "kept.parquet").unlink()
    assert not (rows_file / "kept.parquet.state").exists()
    moments, resumed = random.Random(0), 0
    for attempt in range(10):
        (rows_file / "kept.parquet").unlink(missing_ok=True)
        before = saved_at(rows_file)
        run = start(rows_file)
        if attempt % 2:
            time.sleep(moments.uniform(0.2, 1.0) * duration)
        else:  # soon after it got further than the one before it
            while run.poll() is None and saved_at(rows_file) in (None, before):
                time.sleep(0.002)
            time.sleep(moments.uniform(0.0, 0.1) * duration)
        run.send_signal(signal.SIGKILL)
        run.communicate()
        resumed += (rows_file / "kept.parquet.state").exists()
    assert resumed >= 3
    if not (rows_file / "kept.parquet").exists():
        assert finish(rows_file) == 0
    assert (rows_file / "kept.parquet").read_bytes() == expected
    assert sorted(file.name for file in rows_file.iterdir()) == ["kept.parquet", "rows.npy"]


def test_interrupted_by_hand_it_says_how_to_go_on(rows_file):
    run = start(rows_file, "--keep", "90%")  # picks enough for many seconds
    while not (rows_file / "kept.parquet.state").exists() and run.poll() is None:
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    message = run.communicate()[1]
    assert run.returncode == 130
    assert "interrupted; go on with: gmmatch select rows.npy" in message
    assert message.rstrip().endswith("--resume")


def test_a_state_of_another_run_is_refused_with_both_fingerprints(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    first = gmmatch.open(tmp_path / "rows.npy")
    state = tmp_path / "kept.parquet.state"
    from gmmatch.checkpoints import FileCheckpoint

    FileCheckpoint(state, "other", {}).save({"x": np.zeros(1)})
    with pytest.raises(gmmatch.errors.InvalidInput, match="belongs to another input") as caught:
        gmmatch.select(first, state=state, resume=True, **PARAMS)
    assert str(caught.value).count("fingerprint") == 1
    assert "other-" in str(caught.value)
    state.write_bytes(b"garbage")
    with pytest.raises(gmmatch.errors.InvalidInput, match="is not the saved state of a run; move it away"):
        gmmatch.select(first, state=state, **PARAMS)
    FileCheckpoint(tmp_path / "new.state", "other", {}).save({"x": np.zeros(1)})
    (tmp_path / "new.state").replace(state)
    gmmatch.select(first, state=state, resume=False, **PARAMS)
    assert not state.exists()


def test_a_state_belongs_to_defaults_as_much_as_to_what_was_asked_for(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(gmmatch.run, "FileCheckpoint", lambda *given: seen.append(given[2]))
    for params in ({}, {"center": "auto"}, {"center": "mean"}):
        gmmatch.select(ROWS[:200], keep=20, state=tmp_path / "state", **params)
    assert seen[0] == seen[1] != seen[2]
    assert seen[0]["center"] == "auto"


@pytest.mark.parametrize("labels", [None, LABELS[:6000]])
@pytest.mark.usefixtures("small_windows")
def test_stopped_and_resumed_lifted_rows_and_cells_give_the_same_picks(labels, tmp_path, monkeypatch):
    from gmmatch import checkpoints

    rows = ROWS[:6000, :3] + 4.0 * LABELS[:6000, None].astype(np.float32)
    given = {"keep": 0.05, "batch_size": 64, "fourier_features": 32, "clusters": 6, "labels": labels}
    state, saves = tmp_path / "state", []
    write = checkpoints.FileCheckpoint._write

    def counted(self, path, found, stop=None):
        write(self, path, found)
        saves.append(path)
        if len(saves) == stop:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "_SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr(checkpoints, "_TIMES_AS_LONG", 0)
    monkeypatch.setattr(checkpoints.FileCheckpoint, "_write", counted)
    expected = gmmatch.select(rows, state=state, **given)
    total = len(saves)
    assert total > 0
    for stop in {1, total}:
        saves.clear()
        stopped = functools.partialmethod(counted, stop=stop)
        monkeypatch.setattr(checkpoints.FileCheckpoint, "_write", stopped)
        with pytest.raises(KeyboardInterrupt):
            gmmatch.select(rows, state=state, **given)
        assert checkpoints.is_there(state)
        monkeypatch.setattr(checkpoints.FileCheckpoint, "_write", write)
        resumed = gmmatch.select(rows, state=state, resume=True, **given)
        np.testing.assert_array_equal(resumed.indices, expected.indices)
        np.testing.assert_array_equal(resumed.scores, expected.scores)
        assert not checkpoints.is_there(state)


def test_what_a_kill_left_half_written_goes_with_the_next_output(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS[:200])
    left, other = (tmp_path / f".{name}.parquet.0123456789abcdef.partial" for name in ("kept", "other"))
    for folder in (left, other):
        folder.mkdir()
        (folder / "0.parquet").write_bytes(b"half a file")
    command = ["select", str(tmp_path / "rows.npy"), "--keep", "10", "-o", str(tmp_path / "kept.parquet")]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert not left.exists()
    assert other.exists()


def test_outputs_by_ending_and_the_rows_themselves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS[:500])
    ids = np.array([f"id-{number}" for number in range(500)])
    np.save("ids.npy", ids)
    np.save("labels.npy", LABELS[:500])
    words = ["select", "rows.npy", "--ids", "ids.npy", "--labels", "labels.npy", "--keep", "50", "--quiet"]
    expected = gmmatch.select(ROWS[:500], keep=50, labels=LABELS[:500])
    for name in ("kept.parquet", "kept.npy", "kept.csv", "kept.txt"):
        done = CliRunner().invoke(app, [*words, "-o", name])
        assert done.exit_code == 0, done.stderr
    assert np.load("kept.npy").tolist() == ids[expected.indices].tolist()
    assert (tmp_path / "kept.txt").read_text().split() == ids[expected.indices].tolist()
    lines = (tmp_path / "kept.csv").read_text().splitlines()
    assert lines[0] == "id,row,label,rank,score,distance,tier,weight"
    assert lines[1].split(",")[:2] == [ids[expected.indices[0]], str(expected.indices[0])]
    done = CliRunner().invoke(app, [*words, "-o", "all.parquet", "--all-rows", "--materialize", "kept"])
    assert done.exit_code == 0, done.stderr
    everything = pq.read_table("all.parquet")
    assert everything.num_rows == 500
    assert {"kept", "tier"} <= set(everything.column_names)
    assert np.flatnonzero(everything["kept"].to_numpy()).tolist() == sorted(expected.indices.tolist())
    np.testing.assert_array_equal(np.load("kept/embeddings.npy"), ROWS[expected.indices])
    assert np.load("kept/ids.npy").tolist() == ids[expected.indices].tolist()
    done = CliRunner().invoke(app, [*words, "-o", "kept.doc"])
    assert done.exit_code == 2


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz", "safetensors"])
def test_materialized_rows_are_of_the_kind_of_the_input(ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = ROWS[:300]
    whole = pa.table({"vector": rows.tolist(), "note": [f"n{number}" for number in range(300)]})
    if ending == "parquet":
        pq.write_table(whole, "rows.parquet")
    elif ending == "arrow":
        with pa.ipc.new_file("rows.arrow", whole.schema) as writer:
            writer.write_table(whole)
    elif ending == "npz":
        np.savez("rows.npz", x=rows)
    else:
        from safetensors.numpy import save_file

        save_file({"x": rows}, "rows.safetensors")
    done = CliRunner().invoke(app, ["select", f"rows.{ending}", "--keep", "30", "--materialize", "kept"])
    assert done.exit_code == 0, done.stderr
    picks = gmmatch.load_selection("kept.parquet").indices
    again = gmmatch.open(f"kept/kept.{ending}", embedding=None if ending in ("parquet", "arrow") else
                                {"npz": "embeddings", "safetensors": "embeddings"}[ending])  # fmt: skip
    np.testing.assert_array_equal(np.asarray(again.rows), rows[picks])
    if ending == "parquet":
        assert pq.read_table("kept/kept.parquet")["note"].to_pylist() == [f"n{pick}" for pick in picks]
    refused = CliRunner().invoke(
        app, ["select", f"rows.{ending}", "--keep", "30", "-o", "k.csv", "--materialize", "kept"]
    )
    assert refused.exit_code == 3
    assert "it exists already" in refused.stderr


def test_a_dry_run_plans_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    np.save("labels.npy", LABELS)
    words = ["select", "rows.npy", "--labels", "labels.npy", "--keep", "10%", "--dry-run"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["rows"], facts["features"], facts["classes"], facts["keep"]) == (20_000, 24, 3, 2000)
    assert facts["batch_size"] is None
    assert facts["enough_memory"]
    assert min(facts[name] for name in ("reads", "memory_bytes", "disk_bytes", "seconds")) > 0
    small = json.loads(CliRunner().invoke(app, [*words, "--json", "--memory", "1MiB"]).stdout)
    assert not small["enough_memory"]
    assert "nothing was written" in CliRunner().invoke(app, words).stdout
    assert sorted(os.listdir()) == ["labels.npy", "rows.npy"]


def test_a_plan_says_what_decoded_rows_take_and_whether_there_is_room(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"vector": list(ROWS), "label": LABELS}), "rows.parquet")
    words = ["select", "rows.parquet", "--labels", "label", "--keep", "10%", "--memory", "2MB", "--dry-run"]
    facts = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert (facts["temporary_bytes"], facts["enough_temporary"]) == (ROWS.nbytes, True)
    assert f" 2 MB in {tempfile.gettempdir()}, " in CliRunner().invoke(app, words).stdout
    monkeypatch.setattr(spill, "temporary_room", lambda: 0)
    monkeypatch.setattr(runs, "temporary_room", lambda: 0)
    assert not json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["enough_temporary"]
    assert "where there is no room for them, so that rows are decoded at every read" in (
        CliRunner().invoke(app, words).stdout
    )


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.usefixtures("small_windows")
def test_a_run_decodes_each_row_once(labelled, tmp_path, monkeypatch):
    decoded, decode = [], Decoder.rows
    monkeypatch.setattr(
        Decoder,
        "rows",
        lambda self, batch, start: (decoded.append(batch.num_rows), decode(self, batch, start))[1],
    )
    monkeypatch.setattr(spill, "_CHUNK_BYTES", 1 << 18)
    pq.write_table(pa.table({"vector": list(ROWS)}), tmp_path / "rows.parquet", row_group_size=3_000)
    source = gmmatch.open(tmp_path / "rows.parquet", memory=1 << 20)
    gmmatch.select(source, LABELS if labelled else None, keep=0.1)
    assert sum(decoded) == len(ROWS)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.usefixtures("small_windows")
def test_the_same_picks_where_rows_are_decoded_at_every_read(labelled, tmp_path, monkeypatch):
    labels = LABELS if labelled else None
    monkeypatch.setattr(spill, "temporary_room", lambda: 0)
    pq.write_table(pa.table({"vector": list(ROWS)}), tmp_path / "rows.parquet", row_group_size=7_000)
    source = gmmatch.open(tmp_path / "rows.parquet", memory=1 << 20)
    for params in ({}, {"batch_size": 128, "guard": "off"}):
        expected = gmmatch.select(ROWS, labels=labels, keep=0.1, random_state=5, **params)
        picked = gmmatch.select(source, labels=labels, keep=0.1, random_state=5, **params)
        assert picked.indices.tolist() == expected.indices.tolist()
        assert picked.scores.tolist() == expected.scores.tolist()
        assert picked.info.reads == expected.info.reads


@pytest.mark.parametrize("params", [{}, {"guard": "off"}, {"batch_size": None, "guard": "off"}])
def test_the_picks_do_not_depend_on_memory(params):
    labels = LABELS[:6000] if params else None
    found = [
        gmmatch.select(ROWS[:6000], keep=300, labels=labels, memory=memory, **params).indices.tolist()
        for memory in ("1MB", "20MB", "2GB", None)
    ]
    assert all(picks == found[0] for picks in found)


def test_classes_beyond_the_size_for_one_go_are_matched_in_batches(monkeypatch):
    monkeypatch.setattr(picking, "WHOLE_ROWS", 6700)
    selection = gmmatch.select(ROWS, keep=500, labels=LABELS, guard="off")
    sizes = np.bincount(LABELS)
    assert (sizes > 6700).any()
    assert (sizes <= 6700).any()
    assert selection.info.batches == sum(-(-size // 256) for size in sizes[sizes > 6700])
    for code in np.flatnonzero(sizes <= 6700):
        whole = gmmatch.select(ROWS, keep=500, labels=LABELS, guard="off", batch_size=None)
        mine, same = (chosen.indices[LABELS[chosen.indices] == code] for chosen in (selection, whole))
        assert mine.tolist() == same.tolist()


def test_a_cap_that_cannot_be_kept_is_refused_before_any_work():
    rows = np.zeros((20_000, 1000), np.float32)
    with pytest.raises(gmmatch.errors.InvalidInput, match="memory is 1 MB; expected at least"):
        gmmatch.select(rows, keep=0.1, memory="1MB")


def test_what_is_found_of_each_row_and_heads_of_many_classes_count_as_memory():
    rows, labels = np.zeros((600_000, 4), np.float32), np.arange(600_000) % 1000
    for given, least in ((None, 85), (labels, 187)):
        with pytest.raises(
            gmmatch.errors.InvalidInput, match=f"memory is 40 MB; expected at least {least} MB"
        ):
            gmmatch.select(rows, keep=2000, labels=given, memory="40MB")


@pytest.mark.parametrize("size", ["lots", "12", "-1GB"])
def test_a_memory_cap_that_makes_no_sense(size, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS[:10])
    done = CliRunner().invoke(app, ["select", "rows.npy", "--keep", "5", f"--memory={size}"])
    assert done.exit_code == 2
    assert "--memory" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_files_without_permission_get_a_sentence(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS[:10])
    (tmp_path / "rows.npy").chmod(0)
    with pytest.raises(gmmatch.errors.InvalidInput, match="permission denied"):
        gmmatch.open(tmp_path / "rows.npy")


def test_a_full_disk_gets_a_sentence_and_leaves_nothing(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS[:2000])
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000));"
        "from gmmatch.cli import main; sys.argv = ['gmmatch', *sys.argv[1:]]; main()"
    )
    words = ["select", "rows.npy", "--keep", "50%", "-o", "kept.parquet"]
    done = subprocess.run(
        [sys.executable, "-B", "-c", script, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "cannot write kept.parquet" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["rows.npy"]
