from __future__ import annotations

import gzip
import json
import os
import pickle

import numpy as np
import pytest

import gmmatch
from gmmatch.data import Unreadable, open_dataset
from gmmatch.errors import InvalidInput, InvalidParameter

RNG = np.random.default_rng(0)


def write(path, content: bytes):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def open_input(source, kind, column=None, **options):
    return open_dataset(source, holds=kind, **{kind: column}, **options)


def everything(found):
    return found.content.all()


class TestFolder:
    def test_a_class_per_subfolder(self, tmp_path):
        for name in ("dog/2.png", "cat/1.JPG", "cat/deep/3.jpeg", "dog/.hidden.png"):
            write(tmp_path / name, name.encode())
        found = open_input(tmp_path, "image")
        assert found.ids.tolist() == ["cat/1.JPG", "cat/deep/3.jpeg", "dog/2.png"]
        assert found.labels.tolist() == ["cat", "cat", "dog"]
        assert everything(found) == [b"cat/1.JPG", b"cat/deep/3.jpeg", b"dog/2.png"]
        assert found.content.paths == [str(tmp_path / name) for name in found.ids]

    def test_flat_and_mixed_folders_have_no_labels(self, tmp_path):
        write(tmp_path / "a.png", b"a")
        assert open_input(tmp_path, "image").labels is None
        write(tmp_path / "more" / "b.png", b"b")
        mixed = open_input(tmp_path, "image")
        assert mixed.labels is None
        assert "1 of 2 images lie in" in mixed.notes[0]

    def test_what_is_left_out_is_said(self, tmp_path):
        write(tmp_path / "cat" / "a.png", b"a")
        write(tmp_path / "cat" / "notes.md", b"")
        (tmp_path / "empty").mkdir()
        notes = open_input(tmp_path, "image").notes
        assert notes[0].startswith("no images in 1 subfolder(s)")
        assert notes[0].endswith(": empty")
        assert notes[1] == "left out files whose names are not those of images: 1 .md"

    def test_links_are_followed_but_not_in_circles(self, tmp_path):
        write(tmp_path / "elsewhere" / "a.png", b"a")
        root = tmp_path / "root"
        root.mkdir()
        os.symlink(tmp_path / "elsewhere", root / "cat")
        os.symlink(root, root / "round")
        assert open_input(root, "image").ids.tolist() == ["cat/a.png"]

    def test_a_file_that_vanished_is_a_bad_row(self, tmp_path):
        write(tmp_path / "a.png", b"a")
        found = open_input(tmp_path, "image")
        (tmp_path / "a.png").unlink()
        assert "No such file" in str(everything(found)[0])

    def test_no_images_at_all(self, tmp_path):
        with pytest.raises(InvalidInput, match="holds no images"):
            open_input(tmp_path, "image")


def idx(array) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


class TestIdx:
    images = RNG.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    labels = np.arange(5, dtype=np.uint8)

    @pytest.mark.parametrize("packed", [False, True])
    def test_a_folder_like_fashion_mnist(self, tmp_path, packed):
        for prefix, count in (("train", 5), ("t10k", 2)):
            for name, array in (("images-idx3", self.images), ("labels-idx1", self.labels)):
                content = idx(array[:count])
                ending = ".gz" if packed else ""
                write(
                    tmp_path / f"{prefix}-{name}-ubyte{ending}",
                    gzip.compress(content) if packed else content,
                )
        train, test = open_input(tmp_path, "image"), open_input(tmp_path, "image", split="test")
        np.testing.assert_array_equal(everything(train), self.images)
        np.testing.assert_array_equal(train.labels, self.labels)
        np.testing.assert_array_equal(everything(test), self.images[:2])
        with pytest.raises(InvalidParameter, match="split must be 'train' or 'test'; got 'validation'"):
            open_input(tmp_path, "image", split="validation")

    def test_damaged_files(self, tmp_path):
        whole = idx(self.images)
        for content, reason in [
            (whole[:-1], "75 bytes; its head promises 76"),
            (whole[:9], "cut short"),
            (b"PNG?" + whole, "expected an IDX file"),
            (gzip.compress(whole)[:-20], "not a readable IDX file: Compressed file ended"),
        ]:
            path = write(tmp_path / "x-images-idx3-ubyte", content)
            with pytest.raises(InvalidInput, match=reason):
                open_input(path, "image")


class TestCifar:
    planes = RNG.integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)
    images = planes.transpose(0, 2, 3, 1)
    labels = (3, 1, 2, 0)

    def python_batch(self, rows=slice(None), **more):
        data = self.planes.reshape(4, -1)[rows]
        return pickle.dumps({b"data": data, b"labels": list(self.labels[rows]), **more}, protocol=2)

    def test_python_batches(self, tmp_path):
        for part in range(1, 6):
            write(tmp_path / f"data_batch_{part}", self.python_batch(slice(0, 2)))
        write(tmp_path / "test_batch", self.python_batch())
        train, test = open_input(tmp_path, "image"), open_input(tmp_path, "image", split="test")
        assert len(train) == 10
        np.testing.assert_array_equal(train.content.read(1, 4), self.images[[1, 0, 1]])
        np.testing.assert_array_equal(everything(test), self.images)
        assert test.labels.tolist() == list(self.labels)
        np.testing.assert_array_equal(everything(open_input(tmp_path / "test_batch", "image")), self.images)

    def test_cifar_100_takes_the_fine_labels(self, tmp_path):
        content = {
            b"data": self.planes.reshape(4, -1),
            b"fine_labels": [9, 8, 7, 6],
            b"coarse_labels": [0] * 4,
        }
        write(tmp_path / "train", pickle.dumps(content, protocol=2))
        assert open_input(tmp_path, "image").labels.tolist() == [9, 8, 7, 6]
        with pytest.raises(InvalidInput, match="but not test"):
            open_input(tmp_path, "image", split="test")

    @pytest.mark.parametrize("heads", [1, 2])
    def test_binary_batches(self, tmp_path, heads):
        head = np.zeros((4, heads), np.uint8)
        head[:, -1] = self.labels
        write(tmp_path / "train.bin", np.hstack([head, self.planes.reshape(4, -1)]).tobytes())
        found = open_input(tmp_path / "train.bin", "image")
        np.testing.assert_array_equal(everything(found), self.images)
        assert found.labels.tolist() == list(self.labels)

    def test_a_malicious_batch_is_not_run(self, tmp_path):
        class Attack:
            def __reduce__(self):
                return os.system, (f"touch {tmp_path / 'ran'}",)

        path = write(tmp_path / "data_batch_1", pickle.dumps({b"data": Attack()}))
        with pytest.raises(InvalidInput, match=r"names posix.system, which is not data and is not run"):
            open_input(path, "image")
        assert not (tmp_path / "ran").exists()

    def test_other_content(self, tmp_path):
        with pytest.raises(InvalidInput, match="holds faces; expected data"):
            open_input(write(tmp_path / "batch", pickle.dumps({"faces": 1})), "image")
        with pytest.raises(InvalidInput, match="expected whole records of 3073"):
            open_input(write(tmp_path / "a.bin", bytes(5000)), "image")


class TestArrays:
    def test_images_with_labels(self, tmp_path):
        images = RNG.integers(0, 256, (3, 5, 4, 3), dtype=np.uint8)
        np.savez(tmp_path / "a.npz", images=images, labels=[1, 0, 1], worse=[0, 0, 0])
        np.save(tmp_path / "a.npy", images)
        np.save(tmp_path / "labels.npy", ["x", "y", "z"])
        (tmp_path / "labels.txt").write_text("4\n5\n6\n")
        found = open_input(tmp_path / "a.npz", "image")
        np.testing.assert_array_equal(everything(found), images)
        assert found.labels.tolist() == [1, 0, 1]
        assert open_input(tmp_path / "a.npz", "image", labels="worse").labels.tolist() == [0, 0, 0]
        plain = open_input(tmp_path / "a.npy", "image", labels=str(tmp_path / "labels.npy"))
        np.testing.assert_array_equal(everything(plain), images)
        assert plain.labels.tolist() == ["x", "y", "z"]
        lines = open_input(tmp_path / "a.npy", "image", labels=tmp_path / "labels.txt")
        assert lines.labels.tolist() == [4, 5, 6]
        with pytest.raises(
            InvalidInput,
            match=r"no file 'wors' to take as labels \(labels=\.\.\.\) \(did you mean 'worse'",
        ):
            open_input(tmp_path / "a.npz", "image", labels="wors")
        with pytest.raises(
            InvalidInput, match=r"labels has 2 entries for 3 rows of .*; expected one per row"
        ):
            open_input(tmp_path / "a.npy", "image", labels=[1, 2])

    def test_files_laid_end_to_end(self, tmp_path):
        content = np.frombuffer(b"onetwothree", np.uint8)
        arrays = {"test_jpeg": content, "test_offsets": [0, 3, 6, 11], "test_labels": [1, 2, 3]}
        np.savez(tmp_path / "a.npz", **arrays)
        found = open_input(tmp_path / "a.npz", "image", split="test")
        assert everything(found) == [b"one", b"two", b"three"]
        assert found.labels.tolist() == [1, 2, 3]
        with pytest.raises(InvalidInput, match="or train_jpeg and train_offsets"):
            open_input(tmp_path / "a.npz", "image")
        np.savez(tmp_path / "a.npz", **{**arrays, "test_offsets": [0, 30, 6, 99]})
        with pytest.raises(InvalidInput, match="offsets that do not fit"):
            open_input(tmp_path / "a.npz", "image", split="test")

    def test_what_is_no_array(self, tmp_path):
        for name in ("a.npy", "a.npz"):
            with pytest.raises(InvalidInput, match="is not a readable"):
                open_input(write(tmp_path / name, b"nonsense"), "image")
        np.save(tmp_path / "b.npy", np.zeros((3, 3)))
        with pytest.raises(InvalidInput, match="expected uint8 images"):
            open_input(tmp_path / "b.npy", "image")


TICKETS = {
    "body": ["printer is on fire", "reset my password", "café"],
    "intent": ["hardware", "access", "food"],
}


class TestTables:
    def table(self, tmp_path, kind):
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = tmp_path / f"tickets.{kind}"
        rows = list(zip(*TICKETS.values(), strict=True))
        if kind in ("csv", "tsv"):
            mark = "," if kind == "csv" else "\t"
            path.write_text(
                "\n".join(mark.join(row) for row in [tuple(TICKETS), *rows]), encoding="utf-8-sig"
            )
        elif kind == "jsonl":
            path.write_text("\n\n".join(json.dumps(dict(zip(TICKETS, row, strict=True))) for row in rows))
        else:
            pq.write_table(pa.table(TICKETS), path, row_group_size=2)
        return path

    @pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
    def test_texts_labels_and_ids_are_columns(self, tmp_path, kind):
        found = open_input(self.table(tmp_path, kind), "text", column="body", labels="intent", ids="intent")
        assert everything(found) == TICKETS["body"]
        assert found.content.read(1, 3) == TICKETS["body"][1:]
        assert found.labels.tolist() == found.ids.tolist() == TICKETS["intent"]

    @pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
    def test_a_missing_column_is_named_with_those_there_are(self, tmp_path, kind):
        path = self.table(tmp_path, kind)
        with pytest.raises(
            InvalidInput,
            match=r"has no column 'bodi' \(text=\.\.\.\) \(did you mean 'body'\?\); it has: body, intent$",
        ):
            open_input(path, "text", column="bodi")
        with pytest.raises(
            InvalidInput, match=r"no column and no file 'nope' to take as labels \(labels=\.\.\.\)"
        ):
            open_input(path, "text", column="body", labels="nope")
        with pytest.raises(InvalidInput, match=r"name the column .* with text=\.\.\.; it has: body, intent"):
            open_input(path, "text")

    def test_lines_of_text(self, tmp_path):
        path = write(tmp_path / "a.txt", "one\r\ntwo\n\nvier ö\n".encode())
        assert everything(open_input(path, "text")) == ["one", "two", "", "vier ö"]

    def test_a_csv_with_mixed_encodings_has_bad_rows_where_it_is_not_utf8(self, tmp_path):
        path = write(tmp_path / "a.csv", b'body,intent\nfine,a\ncaf\xe9,b\n"two\nlines",c\n')
        contents = everything(open_input(path, "text", column="body", labels="intent"))
        assert contents[0] == "fine"
        assert str(contents[1]) == "not UTF-8 (byte 0xe9 at position 3)"
        assert contents[2] == "two\nlines"

    def test_names_of_columns_survive_rows_that_are_not_utf8(self, tmp_path):
        path = write(tmp_path / "a.csv", "größe,text\nä,b\n".encode() + b"\xe9,c\n")
        contents = everything(open_input(path, "text", column="größe"))
        assert contents[0] == "ä"
        assert isinstance(contents[1], Unreadable)

    def test_rows_of_the_wrong_width_keep_their_place(self, tmp_path):
        path = write(tmp_path / "a.csv", b"body,intent\none,a\ntwo,b,\xe9xtra\nthree\nfour,d\n")
        found = open_input(path, "text", column="body", labels="intent")
        contents = everything(found)
        assert [contents[0], contents[3]] == ["one", "four"]
        assert str(contents[1]) == "3 values for 2 columns"
        assert str(contents[2]) == "1 values for 2 columns"
        assert found.labels[[0, 3]].tolist() == ["a", "d"]

    def test_empty_values_are_bad_rows(self, tmp_path):
        path = write(tmp_path / "a.csv", b"body,intent\n,a\ntwo,\nthree,c\n")
        found = open_input(path, "text", column="body", labels="intent", on_bad_rows="drop")
        assert str(everything(found)[0]) == "no text in column 'body'"
        assert found.bad == {1: "no label in column 'intent'"}
        assert everything(found)[2] == "three"

    def test_other_encodings_and_empty_files(self, tmp_path):
        utf16 = write(tmp_path / "a.csv", "body\nx\n".encode("utf-16"))
        with pytest.raises(InvalidInput, match="is UTF-16; expected UTF-8"):
            open_input(utf16, "text", column="body")
        head = write(tmp_path / "b.csv", b"caf\xe9,body\nx,y\n")
        with pytest.raises(InvalidInput, match="names the columns, is not UTF-8"):
            open_input(head, "text", column="body")
        for name, content in [("c.csv", b""), ("d.csv", b"body\n"), ("e.txt", b""), ("f.jsonl", b"")]:
            path = write(tmp_path / name, content)
            with pytest.raises(InvalidInput, match=name):
                open_input(path, "text", column=None if name.endswith("txt") else "body")

    def test_json_lines_that_are_no_json(self, tmp_path):
        path = write(
            tmp_path / "a.jsonl", b'{"body": "one"}\nnonsense\n[1]\n{"body": "caf\xe9"}\n{"other": 1}\n'
        )
        contents = everything(open_input(path, "text", column="body"))
        assert contents[0] == "one"
        assert all(isinstance(content, Unreadable) for content in contents[1:])
        assert str(contents[1]).startswith("line 2 is not JSON")
        assert str(contents[2]) == "line 3 holds list; expected an object with named values"
        assert "not UTF-8" in str(contents[3])
        assert str(contents[4]) == "no text in column 'body'"

    def test_whole_numbers_are_labels_as_numbers(self, tmp_path):
        path = write(tmp_path / "a.csv", b"body,label\nx,3\ny,10\n")
        assert open_input(path, "text", column="body", labels="label").labels.tolist() == [3, 10]
        records = [{"body": "x", "label": label} for label in (2.0, 7, 3)]
        path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, records)).encode())
        assert open_input(path, "text", column="body", labels="label").labels.tolist() == [2, 7, 3]
        records[1]["label"] = 2**70
        write(path, "\n".join(map(json.dumps, records)).encode())
        assert open_input(path, "text", column="body", labels="label").labels[1] == str(2**70)

    def test_images_as_paths_bytes_and_pairs(self, tmp_path):
        import pyarrow as pa
        import pyarrow.parquet as pq

        write(tmp_path / "pictures" / "a.png", b"A")
        write(tmp_path / "list.txt", b"pictures/a.png\npictures/b.png\n")
        write(tmp_path / "table.csv", b"file_name,label\npictures/a.png,x\n")
        pairs = [{"bytes": b"A", "path": "a.png"}, {"bytes": None, "path": "pictures/a.png"}, None]
        pq.write_table(pa.table({"image": pairs, "label": [0, 1, 1]}), tmp_path / "pairs.parquet")
        pq.write_table(pa.table({"picture": [b"A", b"B"]}), tmp_path / "bytes.parquet")
        listed = open_input(tmp_path / "list.txt", "image")
        assert everything(listed)[0] == b"A"
        assert str(everything(listed)[1]) == "cannot read pictures/b.png: No such file or directory"
        assert listed.content.paths[0] == str(tmp_path / "pictures" / "a.png")
        assert everything(open_input(tmp_path / "table.csv", "image")) == [b"A"]
        hugging = everything(open_input(tmp_path / "pairs.parquet", "image", labels="label"))
        assert hugging[:2] == [b"A", b"A"]
        assert str(hugging[2]) == "no image in column 'image'"
        assert everything(open_input(tmp_path / "bytes.parquet", "image", column="picture")) == [b"A", b"B"]

    def test_a_folder_of_parquet_files(self, tmp_path):
        import pyarrow as pa
        import pyarrow.parquet as pq

        for part in range(3):
            pq.write_table(
                pa.table({"body": [f"{part}{row}" for row in range(4)]}), tmp_path / f"{part}.parquet"
            )
        found = open_input(tmp_path, "text", column="body")
        assert found.content.read(3, 9) == ["03", "10", "11", "12", "13", "20"]


def test_inputs_of_the_wrong_kind(tmp_path):
    with pytest.raises(InvalidInput, match="there is no file"):
        open_input(tmp_path / "nothing", "image")
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(InvalidInput, match="holds no texts"):
        open_input(tmp_path, "text")
    with pytest.raises(InvalidParameter, match="it has no columns"):
        open_input(tmp_path, "image", column="image")
    with pytest.raises(InvalidInput, match="of a kind that is not known"):
        open_input(write(tmp_path / "a.xyz", b"1234"), "image")
    with pytest.raises(InvalidInput, match="is not a readable Parquet file"):
        open_input(write(tmp_path / "a.parquet", b"PAR1 not really"), "text", column="a")


def test_bad_photos_are_left_out_where_the_door_was_told_so(tmp_path):
    from PIL import Image

    for number in range(24):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 10 * number).save(folder / f"{number}.png")
    (tmp_path / "photos" / "a" / "bad.png").write_bytes(b"no image")
    data = gmmatch.open(tmp_path / "photos", on_bad_rows="drop")
    found = gmmatch.select(gmmatch.open(data, encoder="pixels"), keep=6)
    assert (found.n_rows, found.info.bad_rows) == (25, 1)


def test_texts_in_a_list_are_encoded_as_texts():
    pytest.importorskip("wordllama")
    found = gmmatch.embed(["where is my order", "thank you"])
    assert repr(found) == "Embedded(2 of 2 rows as 256 numbers by wordllama)"
