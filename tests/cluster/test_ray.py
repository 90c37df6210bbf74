"""The same picks on a cluster as on this machine, bit by bit, whatever is lost on the way."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch import progress
from gmmatch.cli import app
from gmmatch.compute import _crew
from gmmatch.errors import InvalidInput, InvalidParameter, WorkerFailed
from gmmatch.selectors.registry import METHODS as METHODS_BY_NAME

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

PARAMS = {"keep": 0.02, "batch_size": 128, "random_state": 5}
READS = ["checking rows", "judging rows", "picking rows"]


def assert_same(found, expected):
    """The same picks, and the same bytes of the selection file: in it is all that is told of a run."""
    for name in ("indices", "scores", "distances"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), strict=True)
    assert (found.objective, found.epsilon) == (expected.objective, expected.epsilon)
    assert written(found) == written(expected)


def written(selection):
    """Return the bytes of a selection's file."""
    with tempfile.TemporaryDirectory() as folder:
        selection.save(f"{folder}/kept.parquet")
        return Path(folder, "kept.parquet").read_bytes()


def pick(engine, labelled, **params):
    """Select on an engine that is open already."""
    source = engine.source if labelled else replace(engine.source, labels=None)
    return gmmatch.select(source, engine=engine, **PARAMS | params)


@contextmanager
def when(phase, act):
    """Act once, in the middle of the phase of that name; fail if the phase does not come up."""
    done = []

    @contextmanager
    def listener(name, total):
        def advance(count):
            if name == phase and count and not done:
                done.append(True)
                act()

        yield advance

    with progress.listen(listener):
        yield
    assert done, f"there was no phase {phase!r}"


@pytest.mark.parametrize("params", [
    {"guard": "off"},
    {"guard": "off", "streams": 3, "center": "mean", "normalize": "unit"},
    {"guard": "auto"},
    {"guard": "auto", "batch_size": None, "keep": 200},
], ids=["plain", "streams", "guard", "all rows"])  # fmt: skip
@pytest.mark.parametrize("labelled", [False, True], ids=["unlabelled", "labelled"])
def test_the_picks_are_those_of_the_local_engine(labelled, params, engine, alone):
    assert_same(pick(engine, labelled, **params), alone(labelled, **params))


@pytest.mark.usefixtures("cluster")
def test_sharded_parquet_by_the_public_function(folder, tmp_path, alone):
    import ray

    source = gmmatch.open(folder / "shards", labels="label", mapped=True)
    found = gmmatch.select(source, engine="ray", address="auto", workers=2, guard="off", **PARAMS)
    assert_same(found, alone(True, guard="off"))
    assert ray.is_initialized()


@pytest.mark.parametrize("params", [
    {"lift": 64}, {"cells": 40}, {"cells": "off", "lift": 64}, {"lift": 64, "batch_size": None, "keep": 200},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("labelled", [False, True], ids=["unlabelled", "labelled"])
def test_lift_and_cells_are_those_of_the_local_engine(labelled, params, engine, alone):
    assert_same(pick(engine, labelled, **params), alone(labelled, **params))


METHODS = ["random", "easy", "hard", "moderate", "stratified", "self-supervised", "herding"]


def by_method(source, method, **more):
    return gmmatch.select(source, method=method, keep=0.02, random_state=5, **more)


def test_all_methods_that_say_so_run_on_a_cluster():
    able = {name for name in gmmatch.methods() if METHODS_BY_NAME[name].engine}
    assert able == {*METHODS, "gm-matching", "gm-matching-paper", "gm-matching-authors"}


@pytest.mark.parametrize("method", METHODS)
def test_other_methods_on_a_cluster(method, engine, folder, on_pieces):
    expected = by_method(gmmatch.open(folder / "rows.npy", labels=folder / "labels.npy"), method)
    assert_same(by_method(engine.source, method, engine=engine), expected)
    assert_same(by_method(on_pieces.source, method, engine=on_pieces), expected)


@pytest.mark.parametrize("params", [{}, {"guard": "off"}, {"batch_size": None, "keep": 200}], ids=str)
@pytest.mark.parametrize("labelled", [False, True], ids=["unlabelled", "labelled"])
def test_rows_in_pieces(labelled, params, on_pieces, alone):
    assert_same(pick(on_pieces, labelled, **params), alone(labelled, **params))


def test_suspects_on_a_cluster(on_pieces, folder, tmp_path):
    source = gmmatch.open(folder / "rows.npy", labels=folder / "labels.npy")
    gmmatch.select(source, suspects=tmp_path / "here.parquet", **PARAMS)
    gmmatch.select(on_pieces.source, suspects=tmp_path / "there.parquet", engine=on_pieces, **PARAMS)
    assert (tmp_path / "here.parquet").read_bytes() == (tmp_path / "there.parquet").read_bytes()


@pytest.mark.parametrize("phase", READS)
@pytest.mark.parametrize("strike", ["kill_process", "remove_node"])
def test_losses_in_each_read_of_an_object_store(strike, phase, in_store, cluster, alone):
    with when(phase, lambda: globals()[strike](in_store, cluster)):
        found = pick(in_store, labelled=True)
    assert_same(found, alone(True))
    if strike == "remove_node":
        cluster.add_node(num_cpus=4, object_store_memory=80 << 20)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray by Ray
@pytest.mark.usefixtures("cluster")
def test_a_dataset_of_ray_is_an_input_and_an_output(folder, alone):
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    data = ray.data.read_parquet([str(file) for file in sorted((folder / "shards").iterdir())])
    source = gmmatch.open(data, labels="label", mapped=True)
    expected = alone(True, guard="off")
    assert_same(gmmatch.select(source, guard="off", **PARAMS), expected)
    assert_same(gmmatch.select(source, guard="off", engine="ray", workers=2, **PARAMS), expected)
    kept = expected.apply(data)
    rows = np.load(folder / "rows.npy", mmap_mode="r")
    taken = np.stack([row["vector"] for row in kept.iter_rows()])
    np.testing.assert_array_equal(taken, rows[expected.indices])


def kill_process(engine, cluster):
    os.kill(engine.members[-1].process, signal.SIGKILL)


def kill_actor(engine, cluster):
    import ray

    ray.kill(engine.members[-1].handle)


def remove_node(engine, cluster):
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)


@pytest.mark.parametrize("phase", ["checking rows", "finding the middle", "picking rows"])
@pytest.mark.parametrize("strike", [kill_process, kill_actor, remove_node])
def test_losses_leave_the_picks_as_they_are(strike, phase, engine, cluster, alone):
    with when(phase, lambda: strike(engine, cluster)):
        found = pick(engine, labelled=True, guard="off", streams=3)
    assert_same(found, alone(True, guard="off", streams=3))
    if strike is remove_node:
        cluster.add_node(num_cpus=4, object_store_memory=80 << 20)


@pytest.mark.parametrize("phase", ["checking rows", "judging rows"])
def test_losses_while_the_guard_judges(phase, engine, cluster, alone):
    with when(phase, lambda: kill_process(engine, cluster)):
        found = pick(engine, labelled=True)
    assert_same(found, alone(True))
    assert found.tiers.tolist() == alone(True).tiers.tolist()


def run(folder, output, *more, how=("gmmatch",)):
    command = (
        "select rows.npy --labels labels.npy --keep 2% --param batch_size=128 --seed 5 --no-guard --resume"
    )
    words = [sys.executable, "-m", *how, *command.split(), "--json", "-o", str(output), *more]
    paths = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        words, cwd=folder, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True
    )


def wait_for(condition, seconds=120):
    """Wait until a condition holds; fail if it does not come true."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not come true"
        time.sleep(0.1)


def test_a_killed_driver_is_resumed_by_either_engine(cluster, folder, tmp_path, alone):
    import ray

    on_cluster = ["--engine", "ray", "--address", cluster.address, "--workers", "2"]
    ended = ("tests.cluster.ended", "picking rows")
    assert run(folder, tmp_path / "kept.parquet", *on_cluster, how=ended).returncode == -signal.SIGKILL
    assert not (tmp_path / "kept.parquet").exists()
    shutil.copy(tmp_path / "kept.parquet.state", tmp_path / "again.parquet.state")
    for name, options in (("kept", on_cluster), ("again", [])):
        resumed = run(folder, tmp_path / f"{name}.parquet", *options)
        assert resumed.returncode == 0, resumed.stderr
        assert json.loads(resumed.stdout)["kept"] == 1400
        assert (tmp_path / f"{name}.parquet").read_bytes() == written(alone(True, guard="off"))
    # The cluster that the drivers had joined is still there; nodes that tests removed are noticed in time.
    wait_for(lambda: sum(node["Alive"] for node in ray.nodes()) == 3)


@pytest.mark.parametrize("phase", READS)
def test_a_driver_killed_in_each_read_of_an_object_store_is_resumed(phase, store, cluster, tmp_path, alone):
    command = "select s3://rows/shards --labels label --keep 2% --param batch_size=128 --seed 5 --memory 30MB"
    words = [*command.split(), "--quiet", "--resume", "--engine", "ray", "--address", cluster.address]
    words += ["--workers", "2", "-o", str(tmp_path / "kept.parquet")]

    def go(*how):
        environment = store.process_environment()
        return subprocess.run([sys.executable, "-m", *how, *words], env=environment, capture_output=True)

    assert go("tests.cluster.ended", phase).returncode == -signal.SIGKILL
    assert not (tmp_path / "kept.parquet").exists()
    assert any(tmp_path.glob("*.state*")) == (phase != READS[0])
    done = go("gmmatch")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kept.parquet").read_bytes() == written(alone(True))
    assert not list(tmp_path.glob("*.state*"))


def test_a_cluster_of_its_own_ends_with_the_call(folder):
    pytest.importorskip("ray", reason="ray is not installed")
    script = (
        "import gmmatch, ray; from gmmatch.compute.ray import ray_engine\n"
        "with ray_engine(gmmatch.open('rows.npy'), workers=1) as engine:\n"
        "    print(*engine.map(lambda span: span.stop, [slice(0, 5)]), ray.nodes()[0]['NodeID'])\n"
        "print(ray.is_initialized())"
    )
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    stop, node, joined = done.stdout.split()
    assert (stop, joined) == ("5", "False")
    wait_for(lambda: not [words for words in commands() if node in words])


def commands():
    """Return the command lines of all processes."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as file:
                found.append(file.read().decode(errors="replace"))
        except OSError:
            continue
    return found


@pytest.mark.usefixtures("cluster")
def test_rows_that_a_node_cannot_read_are_named_with_the_node(tmp_path):
    np.save(tmp_path / "gone.npy", np.zeros((100, 4)))
    source = gmmatch.open(tmp_path / "gone.npy")
    (tmp_path / "gone.npy").unlink()
    with pytest.raises(
        InvalidInput, match=r"node [\d.]+ \(\w+\) cannot read rows 0 to 100 of .*gone.npy"
    ) as no:
        gmmatch.select(source, keep=10, engine="ray", workers=1)
    assert "every node must see the same files" in str(no.value)


@pytest.mark.usefixtures("cluster")
def test_other_rows_under_the_same_path_are_refused(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((100, 4)))
    source = gmmatch.open(tmp_path / "rows.npy")
    (tmp_path / "rows.npy").unlink()
    np.save(tmp_path / "rows.npy", np.ones((100, 4)))
    with pytest.raises(InvalidInput, match="sees other rows than this machine"):
        gmmatch.select(source, keep=10, engine="ray", workers=1)


def test_a_worker_out_of_memory_is_named_with_its_node_and_rows(engine):
    too_much = 1 << 46
    with pytest.raises(WorkerFailed, match=r"on node [\d.]+ \(\w+\) ran out of memory in rows 0 to 7 of"):
        list(engine.map(lambda span: np.empty(too_much), [slice(0, 7)]))
    assert list(engine.map(lambda span: span.stop, [slice(0, 7)])) == [7]


def test_rows_that_kill_every_worker_are_named(engine, monkeypatch):
    monkeypatch.setattr(_crew, "_MOST_LOSSES", 2)
    with pytest.raises(WorkerFailed, match=r"2 workers were lost in rows 0 to 7 of .*rows.npy, the last on"):
        list(engine.map(lambda span: os.kill(os.getpid(), signal.SIGKILL), [slice(0, 7)]))
    assert list(engine.map(lambda span: span.stop, [slice(0, 7)])) == [7]


def test_a_mistake_in_a_function_is_raised_as_it_is(engine):
    with pytest.raises(ZeroDivisionError):
        list(engine.map(lambda span: span.start // 0, [slice(0, 7)]))


@pytest.mark.usefixtures("cluster")
def test_rows_in_memory_and_other_methods_are_refused(folder):
    with pytest.raises(InvalidInput, match="held in memory"):
        gmmatch.select(np.zeros((10, 2)), keep=5, engine="ray")
    with pytest.raises(InvalidParameter, match="'k-center' runs on one machine"):
        gmmatch.select(gmmatch.open(folder / "rows.npy"), method="k-center", keep=5, engine="ray")
    with pytest.raises(InvalidParameter, match="engine must be 'local', 'processes' or 'ray'"):
        gmmatch.select(np.zeros((10, 2)), keep=5, engine="dask")
    with pytest.raises(InvalidParameter, match="address and workers are for the engine 'ray'"):
        gmmatch.select(np.zeros((10, 2)), keep=5, address="auto")


def test_an_address_without_a_cluster(folder):
    pytest.importorskip("ray", reason="ray is not installed")
    words = ["select", "rows.npy", "--keep", "5", "--engine", "ray", "--address", "127.0.0.1:1"]
    script = "import sys; from gmmatch.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script, *words], cwd=folder, capture_output=True, text=True,
                          timeout=600, check=False)  # fmt: skip
    assert done.returncode == 3
    assert "cannot join a Ray cluster at '127.0.0.1:1'" in done.stderr


def test_inputs_that_must_be_encoded_first():
    done = CliRunner().invoke(app, ["select", "x.csv", "--text", "body", "--keep", "5", "--engine", "ray"])
    assert done.exit_code == 2
    assert "encode first with gmmatch embed" in done.stderr


def test_without_ray_the_extra_is_named(folder):
    script = "import sys; sys.modules['ray'] = None; from gmmatch.cli import main; main()"
    words = [sys.executable, "-c", script, "select", "rows.npy", "--keep", "5", "--engine", "ray"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 4
    assert (
        done.stderr
        == "gmmatch: ray is not installed; install it with: pip install ray (the extra gmmatch[cluster])\n"
    )
