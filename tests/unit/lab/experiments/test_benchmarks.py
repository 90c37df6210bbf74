import gzip
import io
import pickle
import struct

import numpy as np
import pytest
from PIL import Image

from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.lab.experiments import benchmarks
from gmmatch.lab.experiments.benchmarks import open_benchmark

RNG = np.random.default_rng(0)


def cifar_batch(folder, name, count, fine=False):
    pixels = RNG.integers(0, 256, (count, 3072), dtype=np.uint8)
    labels = RNG.integers(0, 10, count).tolist()
    key = b"fine_labels" if fine else b"labels"
    (folder / name).write_bytes(pickle.dumps({b"data": pixels, key: labels}, protocol=2))
    return pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels


def test_the_official_files_of_cifar10_are_read_batch_after_batch(tmp_path):
    folder = tmp_path / "cifar10"
    folder.mkdir()
    parts = [cifar_batch(folder, f"data_batch_{part}", 7) for part in range(1, 6)]
    test = cifar_batch(folder, "test_batch", 5)
    found = open_benchmark("cifar10", tmp_path)
    np.testing.assert_array_equal(found.inputs, np.concatenate([images for images, _ in parts]))
    np.testing.assert_array_equal(found.labels, np.concatenate([labels for _, labels in parts]))
    np.testing.assert_array_equal(found.test_inputs, test[0])
    np.testing.assert_array_equal(found.test_labels, test[1])
    assert found.recipe == "cifar"


def test_cifar100_is_read_by_its_fine_labels(tmp_path):
    (tmp_path / "cifar100").mkdir()
    images, labels = cifar_batch(tmp_path / "cifar100", "train", 6, fine=True)
    cifar_batch(tmp_path / "cifar100", "test", 4, fine=True)
    found = open_benchmark("cifar100", tmp_path)
    np.testing.assert_array_equal(found.inputs, images)
    np.testing.assert_array_equal(found.labels, labels)


def test_a_file_that_is_not_the_official_one_is_refused(tmp_path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    cifar_batch(folder, "train", 6, fine=True)
    with pytest.raises(InvalidInput, match=r"train has the MD5 sum .* the official file has 16019d7e"):
        open_benchmark("cifar100", tmp_path)


def jpeg(image):
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, format="PNG")
    return stream.getvalue()


def test_the_archive_of_compressed_images_has_the_human_labels(tmp_path):
    images = RNG.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    parts = [jpeg(image) for image in images]
    offsets = np.cumsum([0, *map(len, parts)])
    content = np.frombuffer(b"".join(parts), dtype=np.uint8)
    labels = np.arange(6) % 3
    np.savez(
        tmp_path / "cifar10.npz",
        train_jpeg=content,
        train_offsets=offsets,
        train_labels=labels,
        test_jpeg=content,
        test_offsets=offsets,
        test_labels=labels,
        human_worst=labels[::-1],
    )
    found = open_benchmark("cifar10", tmp_path)
    np.testing.assert_array_equal(found.inputs, images)
    np.testing.assert_array_equal(found.human["worst"], labels[::-1])
    assert len(found.head(4, 2).human["worst"]) == len(found.head(4, 2).inputs) == 4
    assert len(found.head(4, 2).test_labels) == 2


def write_idx(path, array):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))


def test_fashion_mnist_is_read_from_idx_files(tmp_path):
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    images, labels = RNG.integers(0, 256, (9, 28, 28), dtype=np.uint8), np.arange(9) % 3
    for prefix in ("train", "t10k"):
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", labels)
    found = open_benchmark("fashion-mnist", tmp_path)
    np.testing.assert_array_equal(found.inputs, images)
    np.testing.assert_array_equal(found.test_labels, labels)


def test_tiny_imagenet_is_read_from_its_folder(tmp_path):
    root = tmp_path / "tiny-imagenet-200"
    (root / "val" / "images").mkdir(parents=True)
    (root / "wnids.txt").write_text("n02\nn01\n")
    colours = {"n02": 200, "n01": 50}
    for name, grey in colours.items():
        folder = root / "train" / name / "images"
        folder.mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (64, 64), (grey,) * 3).save(folder / f"{name}_{number}.JPEG")
    Image.new("L", (64, 64), 50).save(root / "val" / "images" / "val_0.JPEG")
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn01\t0\t0\t62\t62\n")
    found = open_benchmark("tiny-imagenet", tmp_path)
    assert found.inputs.shape == (4, 64, 64, 3)
    np.testing.assert_array_equal(found.labels, [0, 0, 1, 1])
    assert abs(int(found.inputs[0].mean()) - 200) <= 1
    assert found.test_inputs.shape == (1, 64, 64, 3)
    np.testing.assert_array_equal(found.test_labels, [1])
    (root / "val" / "val_annotations.txt").unlink()
    with pytest.raises(InvalidInput, match="unpack the archive again"):
        open_benchmark("tiny-imagenet", tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "tiny-imagenet", "fashion-mnist"])
def test_a_missing_dataset_says_where_to_get_it(name, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmarks, "_SYSTEM_FASHION", tmp_path / "nowhere")
    monkeypatch.delenv("GMMATCH_DATA", raising=False)
    with pytest.raises(InvalidInput, match=f"{name} is missing: not found in .*; get "):
        open_benchmark(name, tmp_path)
    with pytest.raises(InvalidInput, match="no folder was named"):
        open_benchmark(name)
    with pytest.raises(InvalidInput, match="there is no folder"):
        open_benchmark(name, tmp_path / "none")


def test_an_unknown_dataset_is_refused():
    with pytest.raises(InvalidParameter, match="imagenet"):
        open_benchmark("imagenet")
