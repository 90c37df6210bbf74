"""Any exported image network, run by onnxruntime."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Float32Array, UInt8Array
from ..compute.blocks import core_count
from ..data.images import PIXELS_VERSION
from ..errors import InvalidInput, InvalidParameter, brief, first_line, require
from .base import ImageEncoder, check_size
from .store import file_digest

# What nearly every network trained on ImageNet expects.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class OnnxEncoder(ImageEncoder):
    """Run a network saved as ONNX on the CPU.

    `path`: the ``.onnx`` file. Its one input takes images, channels first or last, as float32 or uint8; its
    output has the shape (rows, features), or (rows, channels, height, width), which is averaged over height
    and width. `size`: side of the images in pixels, where the file leaves it open. `mean`, `std`: what is
    taken off pixels in [0, 1], and what they are then divided by, per channel. A network that takes uint8
    does this itself. `output`: name of the output to read; the first one by default.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        size: int | None = None,
        mean: Sequence[float] | float = MEAN,
        std: Sequence[float] | float = STD,
        output: str | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name or f"onnx:{os.fspath(path)}"
        self._session = _open_session(Path(path))
        self._input, self._channels_last, fixed = _image_input(self._session, path)
        self.size = (fixed or 224) if size is None else check_size(size)
        if fixed not in (None, self.size):
            raise InvalidParameter(f"size is {size}, but {path} takes images of {fixed} pixels")
        names = [entry.name for entry in self._session.get_outputs()]
        if output is not None and output not in names:
            raise InvalidParameter(f"{path} has no output {output!r}; it has: {', '.join(names)}")
        self._output = output or str(names[0])
        self._mean, self._std = _per_channel(mean, "mean"), _per_channel(std, "std")
        if not self._std.all():
            raise InvalidParameter("std must not be zero")
        facts = (file_digest(path), self.size, self._output, self._mean.tolist(), self._std.tolist())
        self.revision = f"{facts} pixels {PIXELS_VERSION}"
        self.dimension: int = self._forward(np.zeros((1, self.size, self.size, 3), np.uint8)).shape[1]

    def _forward(self, pixels: UInt8Array) -> Float32Array:
        batch: Any = pixels
        if self._input.type == "tensor(float)":
            batch = (pixels / np.float32(255) - self._mean) / self._std
        if not self._channels_last:
            batch = np.ascontiguousarray(batch.transpose(0, 3, 1, 2))
        try:
            result = self._session.run([self._output], {self._input.name: batch})[0]
        except Exception as error:  # onnxruntime's errors share no base of their own
            failed = f"{self.name} cannot run on images of {self.size} pixels"
            raise InvalidInput(f"{failed}: {first_line(error)}") from error
        if result.ndim == 4:
            result = result.mean((2, 3))
        if result.ndim != 2 or len(result) != len(pixels):
            expected = "expected (rows, features) or (rows, channels, height, width)"
            given = f"the shape {result.shape} for {len(pixels)} images"
            raise InvalidInput(f"{self.name} returns {given}; {expected}")
        return np.asarray(result, np.float32)


def _open_session(path: Path) -> Any:
    runtime = require("onnxruntime", "onnxruntime", "photos")
    if not path.is_file():
        raise InvalidInput(f"{path} is not a file; expected a network saved as ONNX")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = core_count()
    # Threads that spin while they wait take the cores from those that decode the next images.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        failed = f"{path} is not a network that onnxruntime can run"
        raise InvalidInput(f"{failed}: {first_line(error)}") from error


def _image_input(session: Any, path: Any) -> tuple[Any, bool, int | None]:
    """Return the input, whether channels come last, and the side of the images if it is fixed."""
    inputs = session.get_inputs()
    first: Any = inputs[0] if inputs else None
    shape = list(first.shape) if len(inputs) == 1 else []
    if len(shape) != 4 or 3 not in shape[1::2]:
        found = ", ".join(f"{entry.name} {entry.shape}" for entry in inputs) or "none"
        expected = "one, of shape (rows, 3, height, width) or (rows, height, width, 3)"
        raise InvalidInput(f"{path} has the inputs {found}; expected {expected}")
    if first.type not in ("tensor(float)", "tensor(uint8)"):
        raise InvalidInput(f"{path} takes {first.type}; expected float32 or uint8 images")
    channels_last = shape[1] != 3
    height, width = shape[1:3] if channels_last else shape[2:4]
    if isinstance(height, int) and isinstance(width, int) and width != height:
        raise InvalidInput(f"{path} takes images of {width} x {height} pixels; expected square ones")
    return first, channels_last, height if isinstance(height, int) else None


def _per_channel(value: Sequence[float] | float | str, name: str) -> Float32Array:
    """Read one number or three; the command line gives three as text."""
    with suppress(ValueError):
        numbers = np.asarray(value.split(",") if isinstance(value, str) else value, dtype=np.float32)
        if numbers.shape in ((), (3,)) and np.isfinite(numbers).all():
            return np.broadcast_to(numbers, 3)
    raise InvalidParameter(f"{name} must be one number, or three (red, green, blue); got {brief(value)}")
