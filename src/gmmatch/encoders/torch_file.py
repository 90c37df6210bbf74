"""Read the weights in a file of ``torch.save`` as NumPy arrays: without torch, without running code.

This is the layout that torch wrote before version 1.6, in which weights published then still come:
three short pickles, the pickle of the dictionary with references to storages, the list of the
storages' names, then each storage as a count and its raw values.
"""

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
from ..errors import InvalidInput

_MAGIC = 0x1950A86A20F9469CFC6C
_STORAGES: Mapping[str, str] = {
    "torch FloatStorage": "<f4",
    "torch DoubleStorage": "<f8",
    "torch HalfStorage": "<f2",
    "torch LongStorage": "<i8",
    "torch IntStorage": "<i4",
}


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
