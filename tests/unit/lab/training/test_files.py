from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gmmatch.errors import InvalidInput, InvalidInputType
from gmmatch.lab import training


def test_a_checkpoint_builds_the_same_network_again(tmp_path: Path) -> None:
    network = training.build_network("shufflenetv2", classes=4, channels=1, seed=8).eval()
    network.standardise(np.random.default_rng(0).integers(0, 99, (3, 28, 28, 1)).astype(np.uint8))
    file = tmp_path / "network.pt"
    training.save_checkpoint(file, network, labels=np.array(["a", "b", "c", "d"]), metadata={"epochs": 3})
    loaded = training.load_checkpoint(file)
    images = torch.rand(2, 1, 28, 28)
    with torch.no_grad():
        assert torch.equal(loaded.network(images), network(images))
    assert not loaded.network.training
    assert loaded.labels == ("a", "b", "c", "d")
    assert loaded.metadata == {"epochs": 3}
    assert loaded.progress is None
    assert [path.name for path in tmp_path.iterdir()] == ["network.pt"]


class _Dangerous:
    def __reduce__(self):
        return os.system, ("touch run",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a checkpoint", "cannot read the checkpoint"),
        (b"", "cannot read the checkpoint"),
        (pickle.dumps(_Dangerous(), protocol=2), "cannot read the checkpoint"),
    ],
    ids=["text", "empty", "code"],
)
def test_files_that_are_no_checkpoint_are_refused(
    tmp_path: Path, monkeypatch, content: bytes, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.pt").write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        training.load_checkpoint("x.pt")
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "is not a network written by gmmatch"),
        ({"version": 99}, "has network format 99; this version of gmmatch reads 1"),
        ({"network": "resnet9"}, "holds a network 'resnet9'"),
        ({"classes": 5}, "its weights do not fit"),
    ],
)
def test_checkpoints_of_another_kind_are_refused(tmp_path: Path, change: dict, message: str) -> None:
    file = tmp_path / "network.pt"
    training.save_checkpoint(file, training.build_network("resnet8", classes=2))
    torch.save(torch.load(file, weights_only=True) | change, file)
    with pytest.raises(InvalidInput, match=message):
        training.load_checkpoint(file)


def test_a_checkpoint_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot write"):
        training.save_checkpoint(tmp_path / "absent" / "x.pt", training.build_network("resnet8", classes=2))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "network.pt"
    network = training.build_network("resnet8", classes=2)
    training.save_checkpoint(file, network)
    before = file.read_bytes()
    with pytest.raises(TypeError):
        training.save_checkpoint(file, network, progress={"hook": (value for value in ())})
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["network.pt"]


def _jpeg(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="JPEG", quality=95)
    return stream.getvalue()


def test_images_are_read_from_npy_npz_and_jpeg_bytes(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 32).astype(np.uint8)
    images = np.stack([np.broadcast_to(ramp[:, None, None], (32, 32, 3)), np.full((32, 32, 3), 77, np.uint8)])
    labels = np.array([4, 9])
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "labels.npy", labels)
    np.savez(tmp_path / "images.npz", images=images, labels=labels, other=labels[::-1])
    encoded = [_jpeg(image) for image in images]
    np.savez(
        tmp_path / "jpeg.npz",
        test_jpeg=np.frombuffer(b"".join(encoded), np.uint8),
        test_offsets=np.cumsum([0, *map(len, encoded)]),
        test_labels=labels,
    )
    found, given = training.read_images(tmp_path / "images.npy", tmp_path / "labels.npy")
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, images)
    np.testing.assert_array_equal(given, labels)
    assert training.read_images(tmp_path / "images.npy")[1] is None
    np.testing.assert_array_equal(training.read_images(tmp_path / "images.npz")[1], labels)
    np.testing.assert_array_equal(training.read_images(tmp_path / "images.npz", "other")[1], labels[::-1])
    decoded, given = training.read_images(tmp_path / "jpeg.npz", split="test")
    assert np.abs(decoded.astype(int) - images).mean() < 3
    np.testing.assert_array_equal(given, labels)


@pytest.mark.parametrize(
    ("name", "arrays", "options", "error", "message"),
    [
        ("a.png", None, {}, InvalidInput, "there is no file .*a.png"),
        ("a.npy", None, {}, InvalidInput, "there is no file .*a.npy"),
        ("a.npz", {"pictures": np.zeros(3)}, {}, InvalidInput, "holds the arrays pictures; expected images"),
        ("a.npz", {"images": np.zeros((2, 9, 9))}, {}, InvalidInputType, "expected uint8 images"),
        (
            "a.npz",
            {"images": np.zeros((2, 9, 9), np.uint8), "labels": np.zeros(3)},
            {},
            InvalidInput,
            "labels has 3 entries for 2 rows",
        ),
        (
            "a.npz",
            {"train_jpeg": np.zeros(9, np.uint8), "train_offsets": np.array([0, 9])},
            {},
            InvalidInput,
            "cannot be used: image 0: not an image",
        ),
        (
            "a.npz",
            {"images": np.zeros((2, 9, 9), np.uint8)},
            {"labels": "absent"},
            InvalidInput,
            "there is no column and no file 'absent' to take as labels",
        ),
    ],
)
def test_unreadable_images_are_refused(
    tmp_path: Path, name: str, arrays: dict | None, options: dict, error: type[Exception], message: str
) -> None:
    if arrays is not None:
        np.savez(tmp_path / name, **arrays)
    with pytest.raises(error, match=message):
        training.read_images(tmp_path / name, **options)


@pytest.mark.skipif(not os.environ.get("GMMATCH_DATA"), reason="needs the folder named by GMMATCH_DATA")
@pytest.mark.data
def test_cifar10_decodes() -> None:
    path = Path(os.environ["GMMATCH_DATA"]) / "cifar10.npz"
    images, labels = training.read_images(path, split="test")
    assert images.shape == (10_000, 32, 32, 3)
    assert np.bincount(labels).tolist() == [1000] * 10


def test_nothing_loads_torch_until_it_is_needed() -> None:
    code = (
        "import sys; import gmmatch.lab.training, gmmatch.lab.signals, gmmatch.lab.training.recipes;"
        "assert 'torch' not in sys.modules; sys.modules['torch'] = None\n"
        "from gmmatch.errors import MissingExtra\n"
        "for module, name in ((gmmatch.lab.training, 'train'), (gmmatch.lab.signals, 'grand_scores')):\n"
        "    try: getattr(module, name)\n"
        "    except MissingExtra as error: print(error)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert (
        shown.stdout.count(
            "torch is not installed; install it with: pip install torch (the extra gmmatch[torch])"
        )
        == 2
    )
