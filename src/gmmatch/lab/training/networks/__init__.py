"""Networks for images of 28 to 64 pixels, and one for embeddings; :func:`build_network` makes them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ....errors import InvalidParameter
from ....validation import as_seed, check_choice, check_positive_int
from .base import Network, initialise, seeded
from .efficientnet import efficientnet_b0
from .linear import Linear
from .resnet import resnet8, resnet18, resnet50, senet18
from .shufflenet import shufflenetv2
from .vgg import vgg16

__all__ = ["BUILDERS", "Network", "build_network", "replace_head"]

BUILDERS: Mapping[str, Callable[[int, int], Network]] = MappingProxyType(
    {
        "resnet8": resnet8,
        "resnet18": resnet18,
        "resnet50": resnet50,
        "vgg16": vgg16,
        "shufflenetv2": shufflenetv2,
        "senet18": senet18,
        "efficientnet-b0": efficientnet_b0,
        "linear": Linear,
    }
)


def build_network(name: str, classes: int, channels: int = 3, *, seed: int = 0) -> Network:
    """Return an untrained network whose weights depend on `seed` alone.

    `name`: one of ``training.NETWORKS``, or ``linear``. `channels`: 1 for grey images, 3 for colour; for
    ``linear``, the numbers in a row. `seed`: seed of the initial weights; torch's own generator is left as it
    was.

    >>> network = build_network("resnet8", classes=10, channels=1)
    >>> network.feature_size, sum(weights.numel() for weights in network.parameters())
    (64, 77754)
    """
    check_choice(name, BUILDERS, "network")
    check_positive_int(classes, "classes")
    if name == "linear":
        check_positive_int(channels, "channels")
    elif channels not in (1, 3):
        raise InvalidParameter(f"channels must be 1 (grey) or 3 (colour); got {channels!r}")
    with seeded(as_seed(seed)):
        network = BUILDERS[name](classes, channels)
        initialise(network)
    return network


def replace_head(network: Network, classes: int, *, seed: int = 0) -> Network:
    """Return a copy of `network` with a new, untrained head for `classes` classes: fine-tuning's start.

    >>> replace_head(build_network("resnet8", classes=10), classes=4).head.out_features
    4
    """
    fresh = build_network(network.name, classes, network.channels, seed=seed)
    encoder = {key: value for key, value in network.state_dict().items() if not key.startswith("head.")}
    fresh.load_state_dict(encoder, strict=False)
    return fresh
