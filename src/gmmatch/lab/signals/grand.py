"""GraNd (Paul et al., 2021): the length of each row's own gradient early in training."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from ...progress import task
from ...validation import check_choice
from ..training.images import Inputs, as_codes, as_inputs
from ..training.inference import check_fits, evaluation_mode, features, resolve_device, to_pixels
from ..training.networks import Network
from ..training.softmax import errors

# Gradients of one chunk of rows together; a chunk of one row is taken however large the network is.
_CHUNK_BYTES = 256 << 20
_LARGEST_CHUNK = 64


def grand_scores(
    network: Network,
    images: Any,
    labels: Any,
    *,
    layers: Literal["all", "last"] = "all",
    device: str | torch.device = "auto",
) -> npt.NDArray[np.float64]:
    """Return the norm of each row's cross-entropy gradient; higher means more important.

    The network is in evaluation mode, so that a row's gradient is its own and does not depend on the
    rows beside it (batch normalisation uses its running statistics).

    `network`: a network early in training. `images`, `labels`: uint8 images and class numbers from 0.
    `layers`: ``all``: the gradient in every parameter, by one vectorised backward pass per chunk of rows;
    memory O(chunk * parameters), at most 256 MB of gradients unless one row needs more. ``last``: the
    gradient in the head alone, in closed form: ||error|| * sqrt(||features||^2 + 1). It costs one forward
    pass. `device`: as in :func:`gmmatch.lab.training.train`.

    >>> from gmmatch.lab.training import build_network
    >>> network = build_network("resnet8", classes=2, channels=1)
    >>> pictures = np.random.default_rng(0).integers(0, 256, (3, 28, 28)).astype(np.uint8)
    >>> whole = grand_scores(network, pictures, [0, 1, 0], device="cpu")
    >>> bool((whole > grand_scores(network, pictures, [0, 1, 0], layers="last", device="cpu")).all())
    True
    """
    check_choice(layers, ("all", "last"), "layers")
    pictures = as_inputs(images)
    check_fits(network, pictures)
    codes = as_codes(labels, len(pictures), network.classes)
    if layers == "last":
        return _head_norms(network, pictures, codes, device)
    place = resolve_device(device)
    network.to(place)
    parameters = {name: value.detach() for name, value in network.named_parameters()}
    buffers = dict(network.named_buffers())

    def loss(weights: dict[str, Tensor], image: Tensor, code: Tensor) -> Tensor:
        logits = functional_call(network, (weights, buffers), (image[None],))
        return F.cross_entropy(logits, code[None])

    row_gradients = vmap(grad(loss), in_dims=(None, 0, 0))
    row_bytes = 4 * sum(value.numel() for value in parameters.values())
    chunk = int(np.clip(_CHUNK_BYTES // row_bytes, 1, _LARGEST_CHUNK))
    norms = np.empty(len(pictures))
    with evaluation_mode(network), task("gradients of single rows", total=len(pictures)) as advance:
        for start in range(0, len(pictures), chunk):
            part = slice(start, start + chunk)
            pixels = to_pixels(torch.tensor(np.ascontiguousarray(pictures[part]), device=place))
            gradients = row_gradients(parameters, pixels, torch.from_numpy(codes[part]).to(place))
            squares = sum(value.flatten(1).square().sum(1) for value in gradients.values())
            norms[part] = torch.sqrt(torch.as_tensor(squares)).cpu().numpy()
            advance(len(pixels))
    return norms


def _head_norms(
    network: Network, pictures: Inputs, codes: npt.NDArray[np.int64], device: str | torch.device
) -> npt.NDArray[np.float64]:
    """Return the norms of the gradients in the head: outer products of error and (features, 1)."""
    rows = features(network, pictures, device=device).astype(np.float64)
    weights = network.head.weight.detach().cpu().double().numpy()
    bias = network.head.bias.detach().cpu().double().numpy()
    gaps = errors(rows @ weights.T + bias, codes)
    return np.asarray(np.linalg.norm(gaps, axis=1) * np.sqrt(np.sum(rows**2, axis=1) + 1.0))
