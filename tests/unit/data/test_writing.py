"""Rows are written back as the kind of data that they came from."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from PIL import Image

import gmmatch
from gmmatch.data import open_dataset, write_rows
from gmmatch.lab.training.images import stack_images

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(20, 3)).astype(np.float32)
NOTES = [f"note {row}" for row in range(20)]
PICKS = np.array([7, 2, 19, 0])


def table():
    return pa.table({"vector": ROWS.tolist(), "note": NOTES})


def make_parquet(folder):
    pq.write_table(table().slice(0, 9), folder / "a.parquet")
    pq.write_table(table().slice(9), folder / "b.parquet")
    return folder


def make_arrow(folder):
    feather.write_feather(table(), folder / "rows.arrow", compression="uncompressed")
    return folder / "rows.arrow"


def make_csv(folder):
    lines = ["x,y,z,note"] + [",".join([*map(repr, row.tolist()), f'"a\n{row[0]}"']) for row in ROWS]
    (folder / "rows.csv").write_text("\n".join(lines))
    return folder / "rows.csv"


def make_tsv(folder):
    (folder / "rows.tsv").write_text("x\ty\n" + "".join(f"{row}\t{-row}\n" for row in range(20)))
    return folder / "rows.tsv"


def make_jsonl(folder):
    lines = [
        json.dumps({"vector": row.tolist(), "note": note}) for row, note in zip(ROWS, NOTES, strict=True)
    ]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return folder / "rows.jsonl"


def make_npz(folder):
    np.savez(folder / "rows.npz", embeddings=ROWS, notes=np.array(NOTES), names=np.arange(3))
    return folder / "rows.npz"


def make_safetensors(folder):
    from safetensors.numpy import save_file

    save_file({"embeddings": ROWS}, folder / "rows.safetensors")
    return folder / "rows.safetensors"


MAKERS = [value for name, value in list(globals().items()) if name.startswith("make_")]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__.removeprefix("make_"))
def test_what_is_written_opens_again_as_the_same_rows(make, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    options = {"ids": "note"} if make is make_csv else {}
    data = open_dataset(make(tmp_path / "in"), **options)
    write_rows(data, PICKS, tmp_path / "out")
    (written,) = (tmp_path / "out").iterdir()
    again = open_dataset(written, **options)
    assert again.kind == data.kind
    np.testing.assert_array_equal(np.asarray(again.rows), np.asarray(data.rows)[PICKS])
    for name in set(data.columns) & {"note"}:
        assert list(again.read_column(name)) == [data.read_column(name)[row] for row in PICKS]
    if make is make_npz:
        with np.load(written) as arrays:
            assert arrays["notes"].tolist() == [NOTES[row] for row in PICKS]
            assert arrays["names"].tolist() == [0, 1, 2]


def test_shards_keep_their_names(tmp_path):
    for number, part in enumerate(np.array_split(ROWS, 3)):
        np.save(tmp_path / f"part-{number}.npy", part)
    (tmp_path / "out").mkdir()
    write_rows(open_dataset(tmp_path / "part-*.npy"), PICKS, tmp_path / "out")
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "part-0.npy"), ROWS[[2, 0]])
    np.testing.assert_array_equal(open_dataset(tmp_path / "out").rows[:], ROWS[[2, 0, 7, 19]])


def test_a_saved_hugging_face_dataset_loads_again(tmp_path):
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_dict({"vector": ROWS.tolist(), "note": NOTES})
    made.save_to_disk(tmp_path / "in")
    for name, given in (("folder", tmp_path / "in"), ("object", made)):
        (tmp_path / name).mkdir()
        write_rows(open_dataset(given), PICKS, tmp_path / name)
        loaded = datasets.load_from_disk(tmp_path / name)
        assert loaded["note"][:] == [NOTES[row] for row in PICKS]
        assert loaded.features == made.features


def test_images_keep_their_folders_and_bytes(tmp_path):
    for row in range(6):
        home = tmp_path / "photos" / f"class{row % 2}"
        home.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (40 * row, 0, 0)).save(home / f"{row}.png")
    kept = gmmatch.select(
        tmp_path / "photos", keep=4, encoder="pixels", materialize=tmp_path / "kept", guard="off"
    )
    found = {path.relative_to(tmp_path / "kept").as_posix() for path in (tmp_path / "kept").rglob("*.png")}
    assert found == set(kept.ids.tolist())
    for name in found:
        assert (tmp_path / "kept" / name).read_bytes() == (tmp_path / "photos" / name).read_bytes()


def test_images_of_an_array_and_of_other_kinds(tmp_path):
    pixels = RNG.integers(0, 256, (20, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "images.npy", pixels)
    np.savez(tmp_path / "images.npz", images=pixels, labels=np.arange(20) % 2)
    idx = bytes([0, 0, 8, 3]) + np.array(pixels.shape, ">u4").tobytes() + pixels.tobytes()
    (tmp_path / "some-images-idx3-ubyte").write_bytes(idx)
    for name in ("images.npy", "images.npz", "some-images-idx3-ubyte"):
        out = tmp_path / f"out-{name}"
        out.mkdir()
        write_rows(open_dataset(tmp_path / name), np.sort(PICKS), out)
        again = open_dataset(next(out.iterdir()) if name.startswith("images") else out)
        shown = stack_images(again.content, name)[0].reshape(4, 8, 8)
        np.testing.assert_array_equal(shown, pixels[np.sort(PICKS)])
