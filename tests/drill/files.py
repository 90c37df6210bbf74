"""Valid files of every kind that is opened, how each is opened, and how bytes are damaged."""

import gzip
import io
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gmmatch import load_selection
from gmmatch.checkpoints import FileCheckpoint
from gmmatch.data import Unreadable, open_dataset
from gmmatch.data.columns import read_values
from gmmatch.data.images import as_pixels
from gmmatch.encoders.efficientnet import read_weights
from gmmatch.encoders.store import KEY_BYTES, VectorStore

ROWS, WIDTH = 24, 5
RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)
LABELS = RNG.integers(0, 3, ROWS)
PICTURES = RNG.integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)


def open_rows(path: Path, choice: int) -> None:
    """Open a dataset, and read all that it holds."""
    data = open_dataset(path, on_bad_rows=("error", "drop")[choice % 2])
    if data.rows is not None:
        rows = np.asarray(data.rows[:])
        assert rows.ndim == 2
        assert rows.dtype in (np.float32, np.float64)
        assert rows.shape == data.shape
    if data.labels is not None:
        assert len(data.labels) == len(data)
    if data.content is not None:
        look_at(data.content.read(0, min(len(data), 50)))
    for name in data.columns if data.read_column is not None else ():
        data.read_column(name)


def look_at(items: list[Any]) -> None:
    for item in items:
        if isinstance(item, (bytes, np.ndarray)):
            try:
                as_pixels(item, 8)
            except Unreadable:
                continue


def open_texts(path: Path, choice: int) -> None:
    data = open_dataset(path, text="text", labels="label", on_bad_rows="drop", unlabelled="class")
    data.content.read(0, len(data))


def open_labels(path: Path, choice: int) -> None:
    read_values(path, "labels", ROWS if choice % 2 else None)


def open_state(path: Path, choice: int) -> None:
    state = FileCheckpoint(path, "print", {}, resume=True)
    state.load()
    state.recall("verdict", lambda: None)


def open_store(path: Path, choice: int) -> None:
    """Open a folder of vectors: what is found is what was written, or nothing."""
    with VectorStore(path) as store:
        keys = np.arange(4 * KEY_BYTES, dtype=np.uint8).reshape(4, KEY_BYTES)
        found = store.find(keys)
        good = found >= 0
        if good.any():
            np.testing.assert_array_equal(store.gather(found[good]), VALUES[:4][good])


def open_network(path: Path, choice: int) -> None:
    from gmmatch.lab.training import load_checkpoint

    load_checkpoint(path)


def written(write: Callable[[Any], Any]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def table() -> pa.Table:
    vectors = pa.array(VALUES.tolist(), pa.list_(pa.float32()))
    names = pa.array([None if row == 3 else f"id {row}" for row in range(ROWS)])
    return pa.table({"embedding": vectors, "label": pa.array(LABELS), "id": names})


def ipc(new: Any) -> bytes:
    def write(stream: Any) -> None:
        with new(stream, table().schema) as writer:
            for batch in table().to_batches(max_chunksize=10):
                writer.write_batch(batch)

    return written(write)


def csv_text(mark: str = ",") -> bytes:
    lines = [mark.join([f"x{i}" for i in range(WIDTH)])]
    lines += [mark.join(f"{value:.4f}" for value in row) for row in VALUES]
    return "\n".join(lines).encode()


def safetensors() -> bytes:
    body = VALUES.tobytes()
    head = json.dumps(
        {"x": {"dtype": "F32", "shape": [ROWS, WIDTH], "data_offsets": [0, len(body)]}}
    ).encode()
    return struct.pack("<Q", len(head)) + head + body


def idx() -> bytes:
    images = PICTURES[..., 0]
    return bytes([0, 0, 8, 3]) + struct.pack(">3I", *images.shape) + images.tobytes()


def cifar() -> bytes:
    pixels = RNG.integers(0, 256, (2, 3072), dtype=np.uint8)
    return pickle.dumps({b"data": pixels, b"labels": [3, 7], b"batch_label": b"one"}, protocol=2)


def picture(form: str) -> bytes:
    from PIL import Image

    return written(lambda stream: Image.fromarray(PICTURES[0]).save(stream, form))


def selection() -> bytes:
    import gmmatch

    path = FOLDER / "made.parquet"
    gmmatch.select(VALUES, keep=6, labels=LABELS).save(path)
    return path.read_bytes()


def state() -> bytes:
    path = FOLDER / "made.state"
    FileCheckpoint(path, "print", {}).save({"theta": VALUES, "seen": np.arange(3)})
    return path.read_bytes()


def weights() -> bytes:
    import torch

    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4)}
    return written(lambda stream: torch.save(tensors, stream, _use_new_zipfile_serialization=False))


def network() -> bytes:
    from gmmatch.lab.training import build_network, save_checkpoint

    path = FOLDER / "made.pt"
    save_checkpoint(path, build_network("linear", 3, 1), labels=["a", "b", "c"])
    return path.read_bytes()


def store() -> dict[str, bytes]:
    folder = FOLDER / "store"
    with VectorStore(folder) as made:
        made.append(np.arange(4 * KEY_BYTES, dtype=np.uint8).reshape(4, KEY_BYTES), VALUES[:4])
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def hugging_face() -> dict[str, bytes]:
    info = {"_data_files": [{"filename": "data.arrow"}], "_fingerprint": "a", "_split": None}
    return {
        "data.arrow": ipc(pa.ipc.new_stream),
        "state.json": json.dumps(info).encode(),
        "dataset_info.json": b"{}",
    }


FOLDER = Path("/nonexistent")
npy = written(lambda stream: np.save(stream, VALUES))
jsonl = "\n".join(
    json.dumps({"embedding": row.tolist(), "label": int(label), "id": n})
    for n, (row, label) in enumerate(zip(VALUES, LABELS, strict=True))
).encode()
texts = b"text,label\n" + b"\n".join(f"a text {n},{n % 3}".encode() for n in range(9))

# For each kind: the name of the file, what makes its bytes (or those of a folder), and what opens it.
KINDS: dict[str, tuple[str, Callable[[], Any], Callable[[Path, int], None]]] = {
    "npy": ("x.npy", lambda: npy, open_rows),
    "npz": ("x.npz", lambda: written(lambda s: np.savez_compressed(s, x=VALUES, labels=LABELS)), open_rows),
    "csv": ("x.csv", csv_text, open_rows),
    "tsv": ("x.tsv", lambda: csv_text("\t"), open_rows),
    "jsonl": ("x.jsonl", lambda: jsonl, open_rows),
    "parquet": (
        "x.parquet",
        lambda: written(lambda s: pq.write_table(table(), s, row_group_size=10)),
        open_rows,
    ),
    "arrow stream": ("x.arrow", lambda: ipc(pa.ipc.new_stream), open_rows),
    "arrow file": ("x.feather", lambda: ipc(pa.ipc.new_file), open_rows),
    "hugging face": ("saved", hugging_face, open_rows),
    "safetensors": ("x.safetensors", safetensors, open_rows),
    "idx": ("x-images-idx3-ubyte", idx, open_rows),
    "idx.gz": ("x-images-idx3-ubyte.gz", lambda: gzip.compress(idx(), mtime=0), open_rows),
    "cifar": ("data_batch_1", cifar, open_rows),
    "cifar binary": ("data_batch_1.bin", lambda: RNG.bytes(2 * 3073), open_rows),
    "png": ("images", lambda: {"a.png": picture("PNG")}, open_rows),
    "jpeg": ("images", lambda: {"a.jpg": picture("JPEG")}, open_rows),
    "texts": ("x.csv", lambda: texts, open_texts),
    "labels npy": ("x.npy", lambda: written(lambda s: np.save(s, LABELS)), open_labels),
    "labels txt": ("x.txt", lambda: "\n".join(map(str, LABELS)).encode(), open_labels),
    "labels csv": ("x.csv", lambda: ("label\n" + "\n".join(map(str, LABELS))).encode(), open_labels),
    "selection": ("kept.parquet", selection, lambda path, choice: load_selection(path) and None),
    "state": ("x.state", state, open_state),
    "vectors": ("stored", store, open_store),
    "torch weights": ("x.pth", weights, lambda path, choice: read_weights(path) and None),
    "network": ("x.pt", network, open_network),
}
SLOW = ("torch weights", "network")  # whose library takes seconds to load

_WORDS = [
    b"\xff" * 8,
    b"\0" * 8,
    b"[" * 3000,
    b"null",
    b"-1",
    b"1e999",
    b"9" * 400,
    b"\n",
    b'"',
    b"\xc2\xb2",
    b"--1",
]


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes of which some are others, missing, doubled or too many."""
    body = bytearray(content)
    way, size = int(rng.integers(7)), len(content)
    if way <= 2 or size == 0:  # a few bytes, or bits
        for at in rng.integers(0, max(size, 1), int(rng.integers(1, 13))) if size else ():
            body[at] = int(rng.integers(256)) if way else body[at] ^ (1 << int(rng.integers(8)))
        return bytes(body)
    first, last = sorted(rng.integers(0, size + 1, 2).tolist())
    if way == 3:
        return bytes(body[: int(rng.integers(size))])
    if way == 4:
        body[first:last] = b"" if rng.integers(2) else bytes(last - first)
    elif way == 5:
        body[first:first] = body[first:last]
    else:
        word = _WORDS[int(rng.integers(len(_WORDS)))]
        body[first : first + int(rng.integers(2)) * len(word)] = word
    return bytes(body)
