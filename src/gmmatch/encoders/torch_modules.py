"""Image networks run by torch: timm's and OpenCLIP's."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import Float32Array, UInt8Array
from ..data.images import PIXELS_VERSION
from ..errors import InvalidParameter, require
from .base import ImageEncoder, check_size


class TorchEncoder(ImageEncoder):
    """Run a function of float images (rows, 3, height, width), normalised per channel, without gradients."""

    def __init__(
        self,
        name: str,
        module: Any,
        function: Callable[[object], Any],
        size: int,
        mean: Sequence[float],
        std: Sequence[float],
        device: str = "auto",
    ) -> None:
        self.name = name
        self.size = check_size(size)
        self._device = resolve_device(device)
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
        return np.asarray(result.float().cpu())


def resolve_device(device: object = "auto") -> Any:
    """Return a device of torch by its name; ``auto`` takes CUDA, then Apple's MPS, then the CPU.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    torch = require("torch", "torch", "torch")
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    try:
        named = torch.device(next(filter(present.get, present)) if device == "auto" else device)
    except RuntimeError:
        expected = "'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'"
        raise InvalidParameter(f"device must be {expected}; got {device!r}") from None
    if not present.get(named.type):
        raise InvalidParameter(f"device {str(device)!r} is not present on this machine")
    return named


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
    name, _, tag = argument.rpartition("/")
    if not (name and tag):
        example = "NAME/TAG, for example open_clip:ViT-B-32/openai"
        raise InvalidParameter(f"open_clip takes {example}; got {argument!r}")
    require("torch", "torch", "hub")
    open_clip = require("open_clip", "open_clip_torch", "hub")
    module = open_clip.create_model(name, pretrained=tag).eval()
    visual = module.visual
    side = np.ravel(visual.image_size)[0] if size is None else size
    mean, std = visual.image_mean, visual.image_std
    return TorchEncoder(f"open_clip:{argument}", module, module.encode_image, side, mean, std, device)


def weights_digest(module: Any) -> str:
    """Return a digest of a torch module's parameters and buffers."""
    whole = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(module.state_dict().items()):
        whole.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        whole.update(tensor.detach().cpu().contiguous().float().numpy().tobytes())
    return whole.hexdigest()
