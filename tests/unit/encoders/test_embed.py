from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from gmmatch.encoders import embed_input
from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.progress import listen

Image = pytest.importorskip("PIL.Image", reason="needs pillow")


class Counting:
    """The mean colour of an image, and how often each was encoded."""

    name = "counting"
    kind = "image"
    dimension = 3
    batch_size = 8

    def __init__(self, revision="1"):
        self.revision = revision
        self.seen: list[bytes] = []

    def prepare(self, item):
        from gmmatch.data.images import as_pixels

        return as_pixels(item, 8)

    def encode(self, batch):
        self.seen += [np.asarray(item).tobytes() for item in batch]
        return np.stack([np.asarray(item).mean((0, 1)) for item in batch]).astype(np.float32)


def colours(count: int):
    return np.random.default_rng(0).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)


def saved(image, **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


@pytest.fixture
def weird(tmp_path) -> Path:
    """A folder as users have it."""
    from tests.unit.data.test_images import png_with_head, quarters

    files = {
        "a/good.png": saved(quarters(), format="PNG"),
        "a/animated.gif": saved(
            Image.new("RGB", (8, 8), "red"),
            format="GIF",
            save_all=True,
            append_images=[Image.new("RGB", (8, 8))],
        ),
        "a/truncated.jpg": saved(quarters(), format="JPEG")[:600],
        "a/text.png": b"no image at all",
        "b/one.png": saved(Image.new("RGB", (1, 1), "lime"), format="PNG"),
        "b/bomb.png": png_with_head(60_000, 60_000),
        "b/cmyk.jpg": saved(quarters().convert("CMYK"), format="JPEG"),
        "b/deep.png": saved(Image.fromarray(np.full((8, 8), 32896, np.uint16)), format="PNG"),
        "b/readme.md": b"",
    }
    for name, content in files.items():
        path = tmp_path / "weird" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "weird" / "empty").mkdir()
    return tmp_path / "weird"


def test_a_weird_folder_is_refused_with_a_reason_for_each_bad_image(weird, tmp_path):
    with pytest.raises(InvalidInput) as caught:
        embed_input(weird, Counting(), output=tmp_path / "e.npy", cache=False)
    message = str(caught.value)
    assert message.startswith("3 of 8 rows cannot be encoded: a/text.png: not an image")
    assert "a/truncated.jpg: the image cannot be decoded" in message
    assert "b/bomb.png: " in message
    assert "\n" not in message
    assert not (tmp_path / "e.npy").exists()
    assert not (tmp_path / "e.parquet").exists()


def test_a_weird_folder_without_its_bad_images(weird, tmp_path):
    counting = Counting()
    with pytest.raises(InvalidInput):
        embed_input(weird, counting, output=tmp_path / "e.npy", cache=False)
    found = embed_input(weird, counting, output=tmp_path / "e.npy", cache=False, on_bad_rows="drop")
    assert found.ids.tolist() == ["a/animated.gif", "a/good.png", "b/cmyk.jpg", "b/deep.png", "b/one.png"]
    assert found.labels.tolist() == ["a", "a", "b", "b", "b"]
    assert found.rows.tolist() == [0, 1, 5, 6, 7]
    assert [bad.id for bad in found.bad_rows] == ["a/text.png", "a/truncated.jpg", "b/bomb.png"]
    assert [bad.row for bad in found.bad_rows] == [2, 3, 4]
    np.testing.assert_array_equal(found.embeddings[[0, 3, 4]], [[255, 0, 0], [128, 128, 128], [0, 255, 0]])
    np.testing.assert_allclose(found.embeddings[2], found.embeddings[1], atol=3)
    assert (found.encoded, len(counting.seen)) == (0, 5)
    assert any(note.endswith(": empty") for note in found.notes)
    assert not list(tmp_path.glob("*.work"))


def test_nothing_is_encoded_twice_neither_in_a_run_nor_in_the_next(tmp_path):
    images = colours(20)
    twice = np.concatenate([images, images[::-1], images[:5]])
    counting = Counting()
    found = embed_input(twice, counting, cache_dir=tmp_path)
    assert sorted(counting.seen) == sorted(image.tobytes() for image in images)
    np.testing.assert_allclose(found.embeddings, twice.mean((1, 2)), rtol=1e-6)
    again = embed_input(twice[7:30], counting, cache_dir=tmp_path)
    assert (again.encoded, len(counting.seen)) == (0, 20)
    np.testing.assert_array_equal(again.embeddings, found.embeddings[7:30])
    other = Counting(revision="2")
    assert embed_input(twice, other, cache_dir=tmp_path).encoded == 20


@pytest.mark.parametrize("batch_size", [1, 3, 8, 1000])
def test_the_batch_size_does_not_change_the_result(batch_size, tmp_path):
    images = np.concatenate([colours(30), colours(10)])
    found = embed_input(images, Counting(), batch_size=batch_size, cache=False)
    np.testing.assert_array_equal(found.embeddings, images.mean((1, 2)).astype(np.float32))


def test_a_twin_of_a_bad_row_is_bad_too(tmp_path):
    found = embed_input(
        [b"bad", saved(Image.new("RGB", (2, 2)), format="PNG"), b"bad", None],
        Counting(),
        cache=False,
        on_bad_rows="drop",
    )
    assert [bad.row for bad in found.bad_rows] == [0, 2, 3]
    assert found.ids.tolist() == [1]


def test_rows_the_encoder_fails_on_are_bad_and_never_zero():
    class Failing(Counting):
        def encode(self, batch):
            vectors = super().encode(batch)
            vectors[0] = np.nan
            return vectors

    found = embed_input(colours(8), Failing(), cache=False, on_bad_rows="drop")
    assert [bad.reason for bad in found.bad_rows] == ["the encoder returned NaN or infinite values"]
    with pytest.raises(InvalidInput, match="1 of 1 rows cannot be encoded"):
        embed_input(colours(1), Failing(), cache=False, on_bad_rows="drop")


def test_progress_adds_up():
    heard = []

    from contextlib import contextmanager

    @contextmanager
    def listener(what, total):
        steps = []
        yield steps.append
        heard.append((what, total, sum(steps)))

    with listen(listener):
        embed_input(np.concatenate([colours(20), colours(5)]), Counting(), cache=False)
    assert heard == [("encoding with counting", 25, 25)]


def test_the_files_hold_the_vectors_and_what_belongs_to_them(tmp_path):
    import pyarrow.parquet as pq

    images = colours(5)
    found = embed_input(images, Counting(), labels=list("abcab"), output=tmp_path / "e.npy", cache=False)
    np.testing.assert_array_equal(np.load(tmp_path / "e.npy"), found.embeddings)
    table = pq.read_table(tmp_path / "e.parquet")
    assert table.column_names == ["id", "label", "path"]
    assert table["label"].to_pylist() == list("abcab")
    assert table["id"].to_pylist() == [0, 1, 2, 3, 4]
    assert json.loads(table.schema.metadata[b"gmmatch"])["encoder"] == "counting"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.npy", "e.parquet"]


SCRIPT = """
    import os, signal, sys
    import numpy as np
    from gmmatch.encoders import embed_input

    class Slow:
        name, kind, dimension, revision, batch_size = "slow", "image", 3, "1", 10
        calls = 0

        def prepare(self, item):
            return item

        def encode(self, batch):
            Slow.calls += 1
            if Slow.calls > int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
            with open("log", "a") as log:
                log.write("".join(f"{item[0, 0, 0]}\\n" for item in batch))
            return np.stack([item.mean((0, 1)) for item in batch]).astype(np.float32)

    images = np.random.default_rng(0).integers(0, 256, (200, 8, 8, 3), dtype=np.uint8)
    images[:, 0, 0, 0] = np.arange(200)
    cache = {"cache_dir": "cache"} if sys.argv[1] == "cache" else {"cache": False}
    embed_input(images, Slow(), labels=np.arange(200) % 3, output="e.npy", **cache)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize(("kept", "kills"), [("cache", [9]), ("beside", [7, 3])])
def test_killed_and_resumed_the_file_is_the_same_and_nothing_is_encoded_twice(tmp_path, kept, kills):
    def run(folder: Path, batches: int) -> int:
        folder.mkdir(exist_ok=True)
        source = Path(__file__).parents[3] / "src"
        environment = {**os.environ, "PYTHONPATH": str(source)}
        script = textwrap.dedent(SCRIPT)
        command = [sys.executable, "-c", script, kept, str(batches)]
        return subprocess.run(command, cwd=folder, env=environment, timeout=120).returncode

    class Undisturbed(Counting):
        name = "slow"

        def prepare(self, item):
            return item

    (tmp_path / "whole").mkdir()
    images = np.random.default_rng(0).integers(0, 256, (200, 8, 8, 3), dtype=np.uint8)
    images[:, 0, 0, 0] = np.arange(200)
    labels = np.arange(200) % 3
    embed_input(images, Undisturbed(), labels=labels, output=tmp_path / "whole" / "e.npy", cache=False)
    for batches in kills:
        assert run(tmp_path / "killed", batches) == -signal.SIGKILL
        assert not (tmp_path / "killed" / "e.npy").exists()
    assert run(tmp_path / "killed", 1000) == 0
    logged = (tmp_path / "killed" / "log").read_text().splitlines()
    assert len(logged) == len(set(logged)) == 200
    for name in ("e.npy", "e.parquet"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not list((tmp_path / "killed").glob("*.work"))


def test_wrong_calls(tmp_path):
    images = colours(2)
    with pytest.raises(InvalidParameter, match=r"must end in \.npy; got"):
        embed_input(images, "pixels", output=tmp_path / "e.parquet")
    with pytest.raises(InvalidInput, match="there is no folder"):
        embed_input(images, "pixels", output=tmp_path / "none" / "e.npy")
    with pytest.raises(InvalidParameter, match="on_bad_rows must be 'error' or 'drop'; got 'skip'"):
        embed_input(images, "pixels", on_bad_rows="skip")
    with pytest.raises(InvalidParameter, match=r"text=.body. names texts, but the encoder takes images"):
        embed_input(images, "pixels", text="body")
    with pytest.raises(InvalidParameter, match="batch_size"):
        embed_input(images, "pixels", batch_size=0)
    with pytest.raises(InvalidParameter, match="made already takes no parameters; got size"):
        embed_input(images, Counting(), size=3)


def test_the_input_is_never_written_over(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({"image": [saved(Image.new("RGB", (2, 2)), format="PNG")]}), tmp_path / "a.parquet"
    )
    np.save(tmp_path / "b.npy", colours(2))
    before = (tmp_path / "a.parquet").read_bytes()
    for source, output in [("a.parquet", "a.npy"), ("b.npy", "b.npy")]:
        with pytest.raises(InvalidParameter, match="is the input; name another file"):
            embed_input(tmp_path / source, "pixels", output=tmp_path / output)
    assert (tmp_path / "a.parquet").read_bytes() == before


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write to")
def test_a_cache_that_cannot_be_made_is_said_before_anything_is_encoded():
    counting = Counting()
    with pytest.raises(
        InvalidInput, match=r"cannot make the cache folder /proc/none.* cache_dir=... or GMMATCH_CACHE"
    ):
        embed_input(colours(2), counting, cache_dir="/proc/none")
    assert not counting.seen


def test_pixels_written_to_a_file_start_afresh(tmp_path):
    for size in (4, 6):
        found = embed_input(colours(3), "pixels", size=size, output=tmp_path / "e.npy", overwrite=size == 6)
        assert found.embeddings.shape == (3, 3 * size * size)
    with pytest.raises(InvalidInput, match="it exists already; overwrite=True replaces it"):
        embed_input(colours(3), "pixels", output=tmp_path / "e.npy")


def test_embeddings_that_exist_pass_through(tmp_path):
    rows = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    rows[3, 1] = np.inf
    np.save(tmp_path / "rows.npy", rows)
    found = embed_input(tmp_path / "rows.npy", "precomputed", on_bad_rows="drop")
    np.testing.assert_array_equal(found.embeddings, np.delete(rows, 3, axis=0))
    assert found.bad_rows[0].reason == "NaN or infinite values; expected finite numbers"
