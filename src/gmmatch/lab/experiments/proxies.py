"""Proxies: whose features the methods see."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...arrays import Float32Array, IntArray
from ...encoders import embed_input
from ...encoders.registry import parameters
from .. import training
from ..training.config import NETWORKS
from .benchmarks import Benchmark
from .scenarios import Given
from .specs import Grid

if TYPE_CHECKING:
    from ..training.networks import Network

_PIXEL_MAX = np.float32(255)


class Proxy:
    """Turns inputs into the features that methods compare.

    `name`: what it is called in the results. `features`: function from inputs to float32 rows. `network`: the
    network behind it, where it is one that can be attacked.
    """

    def __init__(
        self, name: str, features: Callable[[npt.NDArray[Any]], Float32Array], network: Network | None = None
    ) -> None:
        self.name = name
        self.features = features
        self.network = network


def build_proxy(
    grid: Grid, data: Benchmark, seed: int, cache: Path, device: str = "auto", given: Given | None = None
) -> Proxy:
    """Return the proxy of a grid, trained or loaded; what takes long is kept in `cache`.

    ``pixels`` are the pixels themselves (or the rows, where the dataset has no images, or they were encoded
    before); a network is
    trained on the undamaged training set, or on the damaged one that is given; anything else names a
    pretrained encoder.
    """
    if grid.proxy == "pixels" or (grid.proxy not in NETWORKS and data.inputs.ndim == 2):
        return Proxy(grid.proxy, _pixels)
    if grid.proxy in NETWORKS:
        source = data if given is None else given
        network = _trained(grid, data, source.inputs, source.labels, seed, cache, device)
        return Proxy(grid.proxy, lambda inputs: training.features(network, inputs, device=device), network)
    params: dict[str, Any] = {"device": device} if "device" in parameters(grid.proxy) else {}

    def embed(inputs: npt.NDArray[Any]) -> Float32Array:
        return np.asarray(embed_input(inputs, grid.proxy, cache_dir=cache, **params).embeddings)

    return Proxy(grid.proxy, embed)


def content_key(*parts: Any) -> str:
    """Return a digest of arrays (every byte of them) and plain data."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.shape} {part.dtype.str}".encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()


def _pixels(inputs: npt.NDArray[Any]) -> Float32Array:
    rows = inputs.reshape(len(inputs), -1).astype(np.float32)
    return rows / _PIXEL_MAX if inputs.dtype == np.uint8 else rows


def _trained(
    grid: Grid,
    data: Benchmark,
    inputs: npt.NDArray[Any],
    labels: IntArray,
    seed: int,
    cache: Path,
    device: str,
) -> Network:
    """Return the network trained on a training set; a killed run goes on at its last epoch."""
    config = grid.proxy_training.config(grid.proxy, len(inputs), data.recipe)
    key = content_key(inputs, labels, config.as_dict(), seed)
    file = cache / "proxies" / f"{grid.proxy}-{key}.pt"
    file.parent.mkdir(parents=True, exist_ok=True)
    channels = 1 if inputs.ndim == 3 else inputs.shape[3]
    network = training.build_network(grid.proxy, data.classes, channels, seed=seed)
    training.train(network, inputs, labels, config.resolved(), seed=seed, device=device, checkpoint=file)
    return network
