"""Disks that are full or read only, limits of size and memory, folders that go away, two runs at once."""

import resource
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from .commands import COMMANDS, contents, environment, one_sentence, run

NO_NAMESPACES = subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0
mounts = pytest.mark.skipif(NO_NAMESPACES, reason="needs unprivileged mounts (unshare -rm)")


def on_disk(inputs, folder, words, size, read_only=False):
    """Run a command in a folder that is a disk of its own; return what it said and what is on the disk."""
    folder.mkdir()
    lock = f"mount -o remount,ro,size={size} {folder};" if read_only else ""
    script = (
        f"mount -t tmpfs -o size={size} tmpfs {folder} && cp -r {inputs}/. {folder} && {lock} cd {folder};"
        f" {sys.executable} -m gmmatch {words}; code=$?; find . -mindepth 1; exit $code"
    )
    env = environment(folder.parent)
    return subprocess.run(["unshare", "-rm", "sh", "-c", script], env=env, capture_output=True, text=True)


def without_work(names):
    """Leave out what `embed` has encoded and `select` has picked so far, which they keep to go on from."""
    kept = ("vectors.npy.work", "kept.parquet.state")
    return {name for name in names if not name.startswith(kept)}


def listed(text):
    return {line.removeprefix("./") for line in text.splitlines() if line.startswith("./")}


@mounts
@pytest.mark.drill
@pytest.mark.parametrize("name", [name for name in COMMANDS if "all outputs" not in name])
@pytest.mark.parametrize("kind", ["full", "read only"])
def test_a_disk_that_takes_nothing(inputs, tmp_path, name, kind, told):
    used = sum(1 + len(content or b"") // 4096 for content in contents(inputs).values()) * 4096
    done = on_disk(inputs, tmp_path / "disk", COMMANDS[name].words, used + 8192, kind == "read only")
    assert done.returncode == 3, done.stderr
    message = one_sentence(done)
    assert "No space left" in message or "Read-only file system" in message
    assert without_work(listed(done.stdout)) == set(contents(inputs))
    told(f"a {kind} disk", f"`{name}`", 1, "one sentence, exit 3, nothing left over")


@mounts
@pytest.mark.slow
def test_a_full_disk_is_told_in_a_sentence(inputs, tmp_path):
    used = sum(1 + len(content or b"") // 4096 for content in contents(inputs).values()) * 4096
    done = on_disk(inputs, tmp_path / "disk", COMMANDS["corrupt"].words, used + 8192)
    assert done.returncode == 3, done.stderr
    assert "No space left" in one_sentence(done)
    assert listed(done.stdout) == set(contents(inputs))


@pytest.mark.drill
@pytest.mark.parametrize("name", COMMANDS)
def test_files_that_may_not_grow(inputs, tmp_path, name, told):
    shutil.copytree(inputs, tmp_path / "here")
    small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (150, 150))  # noqa: E731
    done = run(tmp_path / "here", COMMANDS[name].words, preexec_fn=small)
    assert done.returncode == 3, done.stderr
    assert "File too large" in one_sentence(done)
    assert without_work(set(contents(tmp_path / "here"))) == set(contents(inputs))
    told("a limit on the size of files", f"`{name}`", 1, "one sentence, exit 3, nothing left over")


@pytest.mark.drill
@pytest.mark.parametrize("name", COMMANDS)
def test_little_memory(inputs, tmp_path, name, told):
    shutil.copytree(inputs, tmp_path / "here")
    expected, cases = None, 0
    for megabytes in (400, 600, 800, 1000, 1300, 2000, 4000):
        room = megabytes << 20
        done = run(
            tmp_path / "here", f"{COMMANDS[name].words} --overwrite" if expected else COMMANDS[name].words,
            preexec_fn=lambda room=room: resource.setrlimit(resource.RLIMIT_AS, (room, room)),
        )  # fmt: skip
        if done.returncode == 0:
            break
        cases += 1
        assert "Traceback" not in done.stderr, done.stderr
        left = set(contents(tmp_path / "here")) - set(contents(inputs))
        assert not any(name.endswith(".partial") for name in left), left
    assert done.returncode == 0, done.stderr
    told(
        "too little memory (`ulimit -v`)", f"`{name}`", cases, "no output half written; with enough, it runs"
    )


@pytest.mark.drill
@pytest.mark.parametrize("name", ["select", "suspects", "embed", "corrupt", "report", "export", "leaks"])
def test_a_folder_that_is_not_there(inputs, tmp_path, name, told):
    shutil.copytree(inputs, tmp_path / "here")
    words = COMMANDS[name].words.replace("-o ", "-o gone/")
    done = run(tmp_path / "here", words)
    assert done.returncode == 3, done.stderr
    assert "gone" in one_sentence(done)
    assert contents(tmp_path / "here") == contents(inputs)
    told("an output folder that is not there", f"`{name}`", 1, "one sentence, exit 3, before any work")


@pytest.mark.drill
@pytest.mark.parametrize("name", ["select", "suspects", "corrupt", "embed", "export", "leaks"])
def test_two_runs_on_one_output(inputs, tmp_path, name, told):
    """Both may finish; the output is one of theirs, whole, and nothing is left over."""
    shutil.copytree(inputs, tmp_path / "here")
    shutil.copytree(inputs, tmp_path / "alone")
    command = COMMANDS[name]
    assert run(tmp_path / "alone", command.words).returncode == 0
    words = [sys.executable, "-m", "gmmatch", *command.words.split(), "--overwrite"]
    both = [
        subprocess.Popen(
            words,
            cwd=tmp_path / "here",
            env=environment(tmp_path / "here"),
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        message = process.communicate(timeout=1800)[1]
        assert process.returncode in (0, 3), message
        assert "Traceback" not in message, message
    assert contents(tmp_path / "here") == contents(tmp_path / "alone")
    told("two runs on one output", f"`{name}`", 1, "the output of one of them, whole; nothing left over")


def test_a_clock_that_was_set_back_does_not_hide_what_was_written_last(tmp_path, monkeypatch):
    from gmmatch.encoders.store import KEY_BYTES, VectorStore

    keys = np.arange(KEY_BYTES, dtype=np.uint8)[None]
    for stamp, value in ((10**18, 1.0), (10**17, 2.0)):
        monkeypatch.setattr(time, "time_ns", lambda stamp=stamp: stamp)
        with VectorStore(tmp_path / "store") as store:
            store.append(keys, np.full((1, 4), value, np.float32))
    with VectorStore(tmp_path / "store") as store:
        assert store.gather(store.find(keys)).tolist() == [[2.0] * 4]
