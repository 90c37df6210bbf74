"""Encoders by spec string: ``FAMILY`` or ``FAMILY:ARGUMENT``."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from ..data import Kind
from ..errors import InvalidParameter
from ..plugins import Registry
from ..validation import check_parameters, nearest
from .base import Encoder, PixelEncoder, PrecomputedEncoder
from .efficientnet import efficientnet_lite0
from .onnx_model import OnnxEncoder
from .store import PathLike
from .texts import SentenceEncoder, WordLlamaEncoder, minilm
from .torch_modules import open_clip_encoder, timm_encoder


@dataclass(frozen=True)
class Family:
    """A kind of encoder."""

    build: Callable[..., Encoder]  # function of the argument, if there is one, and of the parameters
    kind: Kind  # what it takes
    argument: str | None  # what follows the colon, or None
    extra: str | None  # the extra of gmmatch that installs what it needs, or None
    summary: str  # one line for tables


_OWN = {
    "efficientnet-lite0": Family(
        efficientnet_lite0, "image", None, "photos", "ImageNet features, 1280-d, no torch"
    ),
    "onnx": Family(OnnxEncoder, "image", "PATH", "photos", "any exported image network"),
    "timm": Family(timm_encoder, "image", "NAME", "hub", "a pretrained network of timm (downloads)"),
    "open_clip": Family(open_clip_encoder, "image", "NAME/TAG", "hub", "a CLIP network (downloads)"),
    "pixels": Family(PixelEncoder, "image", None, None, "the pixels themselves, scaled to [0, 1]"),
    "wordllama": Family(WordLlamaEncoder, "text", None, "texts", "token averages, 256-d, no torch"),
    "minilm": Family(minilm, "text", None, "texts-minilm", "all-MiniLM-L6-v2, 384-d"),
    "sentence-transformers": Family(
        SentenceEncoder, "text", "NAME_OR_PATH", "texts-minilm", "any sentence-transformers model"
    ),
    "precomputed": Family(PrecomputedEncoder, "rows", None, None, "rows that are embeddings already"),
}


def _family(name: str, found: object) -> Family:
    """Return what the entry point of an installed package gives, if it is a family."""
    if not isinstance(found, Family):
        raise InvalidParameter(f"an encoder must be a gmmatch.encoders.Family; got {type(found).__name__}")
    return found


FAMILIES = Registry("gmmatch.encoders", "encoder", _OWN, _family)
"""The families by name: the project's own, and those of installed packages."""


def register_encoder(
    name: str,
    build: Callable[..., Encoder],
    kind: Kind,
    *,
    argument: str | None = None,
    extra: str | None = None,
    summary: str = "",
) -> Family:
    """Make an encoder of your own known by name, wherever a spec string is taken.

    A package does the same for all who install it with an entry point of the group `gmmatch.encoders`, which
    names a `Family`.

    Parameters
    ----------
    name
        What comes before the colon of a spec string.
    build, kind, argument, extra, summary
        See `Family`.

    Raises
    ------
    InvalidParameter
        The name is taken.

    Examples
    --------
    >>> from gmmatch.encoders import FAMILIES, encoder, register_encoder
    >>> from gmmatch.encoders.base import PixelEncoder
    >>> family = register_encoder("tiny", lambda: PixelEncoder(size=4), "image", summary="4 by 4 pixels")
    >>> encoder("tiny").dimension
    48
    >>> del FAMILIES["tiny"]
    """
    return FAMILIES.register(name, Family(build, kind, argument, extra, summary))


def encoder(spec: str, **params: object) -> Encoder:
    """Return the encoder that a spec string names.

    `spec`: ``FAMILY`` or ``FAMILY:ARGUMENT``, such as ``efficientnet-lite0`` or ``onnx:model.onnx``.
    `params`: parameters of the family, such as `size`.

    Raises `InvalidParameter`: no such family, an argument too many or missing. Raises `MissingExtra`: the
    family needs a package that is not installed.

    >>> encoder("pixels", size=32).dimension
    3072
    >>> encoder("efficientnet")
    Traceback (most recent call last):
    gmmatch.errors.InvalidParameter: there is no encoder 'efficientnet' (did you mean ...?); there are: ...
    """
    family, argument = find_family(spec)
    check_parameters(params, parameters(spec), f"the encoder {spec.partition(':')[0]}")
    return family.build(*([] if argument is None else [argument]), **params)


def make_encoder(chosen: str | Encoder, cache_dir: PathLike | None, params: dict[str, object]) -> Encoder:
    """Return the encoder that a spec string names, or one that is made already.

    `cache_dir`: folder of its files; `params` gets it where the encoder takes one.
    """
    if isinstance(chosen, str):
        if cache_dir is not None and "cache_dir" in parameters(chosen):
            params.setdefault("cache_dir", cache_dir)
        return encoder(chosen, **params)
    if params:
        given = ", ".join(params)
        raise InvalidParameter(f"an encoder that is made already takes no parameters; got {given}")
    return chosen


def parameters(spec: str) -> list[str]:
    """Return the names of the parameters that an encoder takes."""
    family, argument = find_family(spec)
    names = list(inspect.signature(family.build).parameters)
    return [name for name in names[0 if argument is None else 1 :] if name != "name"]


def find_family(spec: str) -> tuple[Family, str | None]:
    """Return the family that a spec string names, and its argument."""
    name, colon, argument = str(spec).partition(":")
    if name not in FAMILIES:
        forms = ", ".join(spec_form(known) for known in FAMILIES)
        raise InvalidParameter(f"there is no encoder {name!r}{nearest(name, FAMILIES)}; there are: {forms}")
    family = FAMILIES[name]
    if family.argument is None and colon:
        raise InvalidParameter(f"the encoder {name} takes no argument; got {spec!r}")
    if family.argument is not None and not argument:
        raise InvalidParameter(f"the encoder {name} takes an argument: {spec_form(name)}; got {spec!r}")
    return family, argument if colon else None


def spec_form(name: str) -> str:
    """Return how a family's spec string is written.

    >>> spec_form("onnx")
    'onnx:PATH'
    """
    argument = FAMILIES[name].argument
    return name if argument is None else f"{name}:{argument}"
