"""Image networks run by torch: networks of ours, timm's and OpenCLIP's."""

import hashlib
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..data.images import PIXELS_VERSION, as_pixels
from ..errors import InvalidParameter
from .base import Float32Array, UInt8Array, require
from .files import file_digest
from .images import ImageEncoder, check_one_shape, check_size

TRAINING = "gmmatch.training"


class TorchEncoder(ImageEncoder):
    """Run a function of float images (rows, 3, height, width), normalised per channel, without gradients."""

    def __init__(
        self,
        name: str,
        module: Any,
        function: Callable[[Any], Any],
        size: int,
        mean: Sequence[float],
        std: Sequence[float],
        device: str = "auto",
    ) -> None:
        self.name = name
        self.size = check_size(size)
        self._device = find_device(device)
        module.to(self._device)
        self._function = function
        self._mean, self._std = np.array(mean, dtype=np.float32), np.array(std, dtype=np.float32)
        self.revision = f"{weights_digest(module)} {self.size} {mean} {std} pixels {PIXELS_VERSION}"
        self.dimension: int = self._forward(np.zeros((1, self.size, self.size, 3), np.uint8)).shape[1]

    def _forward(self, pixels: UInt8Array) -> Float32Array:
        torch = require("torch", "torch", "torch")
        scaled = (pixels / np.float32(255) - self._mean) / self._std
        with torch.inference_mode():
            result = self._function(torch.from_numpy(scaled).permute(0, 3, 1, 2).to(self._device))
        vectors: Float32Array = result.float().cpu().numpy()
        return vectors


class CheckpointEncoder(ImageEncoder):
    """Penultimate features of a network saved by ``gmmatch train``; no code in the file is run.

    `size`: side that images are resampled to; None where all have the size the network was trained on.
    `device`: where it runs, as for `gmmatch train`.
    """

    batch_size = 256

    def __init__(self, path: str | os.PathLike[str], size: int | None = None, device: str = "auto") -> None:
        require("torch", "torch", "torch")
        self._device = find_device(device)
        # `training` stands beside `encoders`, not below it, so it is looked up when it is needed.
        self._training = importlib.import_module(TRAINING)
        self._network = self._training.load_checkpoint(path).network
        self.name = f"torch:{os.fspath(path)}"
        self.size = None if size is None else check_size(size)
        self.dimension: int = self._network.feature_size
        self.revision = f"{file_digest(path)} {self.size} pixels {PIXELS_VERSION}"

    def prepare(self, item: Any) -> UInt8Array:
        """Return an image in the network's number of channels, grey or colour."""
        pixels = as_pixels(item, self.size)
        channels = self._network.channels
        if pixels.shape[2] == channels:
            return pixels
        if channels == 3 and pixels.shape[2] == 1:
            return np.repeat(pixels, 3, axis=2)
        image = require("PIL.Image", "pillow", "images").fromarray(pixels)
        return np.asarray(image.convert("L" if channels == 1 else "RGB")).reshape(*pixels.shape[:2], channels)

    def encode(self, batch: Sequence[Any]) -> Float32Array:
        """Return one vector per image; without `size`, all images must have one shape."""
        pixels = [self.prepare(item) for item in batch]
        check_one_shape(pixels, self.name)
        if not pixels:
            return np.empty((0, self.dimension), dtype=np.float32)
        return self._forward(np.stack(pixels))

    def _forward(self, pixels: UInt8Array) -> Float32Array:
        vectors: Float32Array = self._training.features(self._network, pixels, device=self._device)
        return vectors


def find_device(device: str) -> Any:
    """Return where torch is to run; ``auto`` takes an accelerator where there is one."""
    return importlib.import_module(TRAINING).resolve_device(device)


def timm_encoder(argument: str, size: int | None = None, device: str = "auto") -> TorchEncoder:
    """Return `timm:NAME`, a pretrained network of timm; its weights come over the network."""
    require("torch", "torch", "hub")
    timm = require("timm", "timm", "hub")
    module = timm.create_model(argument, pretrained=True, num_classes=0).eval()
    wanted = timm.data.resolve_model_data_config(module)
    side = wanted["input_size"][-1] if size is None else size
    return TorchEncoder(f"timm:{argument}", module, module, side, wanted["mean"], wanted["std"], device)


def open_clip_encoder(argument: str, size: int | None = None, device: str = "auto") -> TorchEncoder:
    """Return `open_clip:NAME/TAG`, the image side of a pretrained CLIP network."""
    name, slash, tag = argument.rpartition("/")
    if not slash or not name or not tag:
        raise InvalidParameter(
            f"open_clip takes NAME/TAG, for example open_clip:ViT-B-32/openai; got {argument!r}"
        )
    require("torch", "torch", "hub")
    open_clip = require("open_clip", "open_clip_torch", "hub")
    module = open_clip.create_model(name, pretrained=tag).eval()
    visual = module.visual
    given = visual.image_size[0] if isinstance(visual.image_size, tuple) else visual.image_size
    side = given if size is None else size
    return TorchEncoder(
        f"open_clip:{argument}",
        module,
        module.encode_image,
        side,
        visual.image_mean,
        visual.image_std,
        device,
    )


def weights_digest(module: Any) -> str:
    """Return a digest of a torch module's parameters and buffers."""
    whole = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(module.state_dict().items()):
        whole.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        whole.update(tensor.detach().cpu().contiguous().float().numpy().tobytes())
    return whole.hexdigest()
