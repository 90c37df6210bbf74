"""The commands that take long, on inputs that take moments, and what they leave."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
SENTENCE = "gmmatch: "


@dataclass(frozen=True)
class Command:
    """A command, what it writes, and the words that go on where it was killed."""

    words: str
    outputs: tuple[str, ...]
    again: str = ""


COMMANDS = {
    "select": Command(
        "select rows.npy --labels labels.npy --keep 10% --param batch_size=256 -o kept.parquet",
        ("kept.parquet",),
        "--resume",
    ),
    "select, all outputs": Command(
        "select rows.npy --labels labels.npy --keep 10% -o kept.parquet --suspects wrong.csv"
        " --report page.html --materialize rows",
        ("kept.parquet", "wrong.csv", "page.html", "rows"),
        "--overwrite",
    ),
    "select without labels": Command(
        "select rows.npy --keep 10% --param batch_size=64 -o kept.parquet", ("kept.parquet",), "--resume"
    ),
    "suspects": Command(
        "suspects rows.npy --labels labels.npy -o wrong.parquet --fix better.csv",
        ("wrong.parquet", "better.csv"),
    ),
    "embed": Command(
        "embed images.npy --encoder pixels --batch-size 16 -o vectors.npy",
        ("vectors.npy", "vectors.parquet"),
    ),
    "corrupt": Command("corrupt photos --share 50% -o spoilt", ("spoilt", "spoilt.mask.csv")),
    "report": Command(
        "report earlier.parquet rows.npy --labels labels.npy -o page.html", ("page.html",), "--overwrite"
    ),
    "export": Command(
        "export earlier.parquet rows.npy --labels labels.npy --to cleanlab -o issues.csv",
        ("issues.csv",),
        "--overwrite",
    ),
    "leaks": Command("leaks rows.npy rows.npy -o leaks.csv", ("leaks.csv",), "--overwrite"),
}
# Each result is a file of its own, and a run that was ended goes on by itself.
EXPERIMENTS = {
    "compare": Command(
        "compare rows.npy --labels labels.npy --methods random,gm-matching --keep 10% --seeds 2 --workers 1"
        " --quiet -o tables",
        ("tables/curves.png", *(f"tables/compare.{ending}" for ending in ("csv", "md", "tex"))),
    ),
    "reproduce": Command(
        "reproduce cifar10-neighbours --methods random,gm-matching --seeds 1 --workers 1 --quiet -o tables",
        tuple(
            f"tables/cifar10-neighbours-smoke/{name}"
            for name in (
                "cifar10-neighbours.csv",
                "cifar10-neighbours.md",
                "cifar10-neighbours.tex",
                "curves.png",
            )
        ),
    ),
}


def make_inputs(folder: Path) -> None:
    """Write the inputs of all commands."""
    from PIL import Image

    import gmmatch

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 1500)
    rows = (rng.normal(size=(1500, 6)) + 2 * labels[:, None]).astype(np.float32)
    np.save(folder / "rows.npy", rows)
    np.save(folder / "labels.npy", labels)
    images = rng.integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    np.save(folder / "images.npy", images)
    (folder / "photos").mkdir()
    for number, image in enumerate(images[:12]):
        Image.fromarray(image).save(folder / "photos" / f"{number}.png")
    gmmatch.select(rows, keep=100, labels=labels).save(folder / "earlier.parquet")


def environment(folder: Path) -> dict[str, str]:
    paths, quiet = os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "error::RuntimeWarning"
    return os.environ | {
        "PYTHONPATH": paths, "GMMATCH_CACHE": str(folder / "cache"), "PYTHONWARNINGS": quiet,
    }  # fmt: skip


def run(
    folder: Path, words: str, *, kill: tuple[int, str, str] | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; `kill`: at which file, before or after it, by which signal."""
    module = ["-m", "gmmatch"] if kill is None else ["-m", "tests.drill.killed", *map(str, kill)]
    return subprocess.run(
        [sys.executable, *module, *words.split()], cwd=folder, env=environment(folder),
        capture_output=True, text=True, timeout=1800, **options,
    )  # type: ignore[call-overload,no-any-return]  # fmt: skip


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return every file and folder below a folder, but for the cache."""
    return {
        path.relative_to(folder).as_posix(): content_of(path) if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.relative_to(folder).parts[0] != "cache"
    }


def content_of(path: Path) -> bytes:
    """Return what a file holds, but for when it was made, how long that took, and by which commit.

    A page tells that among other things, and so is only seen to be whole.
    """
    content = path.read_bytes()
    if content.rstrip().endswith(b"</html>"):
        return b"a page"
    if path.parent.name in ("picks", "trained") and path.suffix == ".npz":
        with np.load(path) as kept:
            return kept["order" if path.parent.name == "picks" else "accuracy"].tobytes()
    if path.parent.name == "cells":
        record = json.loads(content)
        return json.dumps(record | {"seconds": None, "date": None, "versions": None}).encode()
    if path.suffix == ".md":
        return re.sub(rb"[\d.]+ hours of work in all; [^;]+; commit [^;]+", b"", content)
    return content


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a failed command said, which is one line and no traceback."""
    lines = [line for line in done.stderr.splitlines() if line]
    assert "Traceback" not in done.stderr, done.stderr
    assert lines, done.returncode
    assert all(line.startswith(SENTENCE) for line in lines), done.stderr
    return lines[-1]
