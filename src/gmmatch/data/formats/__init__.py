"""The kinds of data that can be opened, one file per kind; this table lists them.

Packages add their own through the entry point group ``gmmatch.formats``, each entry a
:class:`Format`, and users with :func:`register_format`.
"""

import dataclasses

from ...errors import InvalidInput, InvalidParameter
from ...plugins import Registry
from ..request import Place, Request
from . import arrays, arrow, image_files, objects, text
from .base import Format

__all__ = ["FORMATS", "Format", "find_format", "register_format"]

# The first that recognises what was given opens it.
OWN: tuple[Format, ...] = (
    objects.RAY,
    objects.HUGGING_FACE,
    arrays.NPY,
    arrays.NPZ,
    arrow.PARQUET,
    arrow.ARROW,
    arrays.SAFETENSORS,
    text.DELIMITED,
    text.JSON,
    image_files.IDX,
    image_files.CIFAR,
    image_files.FOLDER,
    objects.TABLE,
    objects.TORCH,
    objects.LIST,
    objects.ARRAY,
)
KNOWN = (
    ".npy, .npz, .parquet, .arrow, .safetensors, .csv, .tsv, .jsonl, .txt, IDX, CIFAR batches, a folder of"
    " images, or a folder or glob of shards"
)


def _as_format(name: str, given: object) -> Format:
    """Check what a package, or a user, offers as a format."""
    if not isinstance(given, Format):
        raise InvalidParameter(f"a format must be a gmmatch.data.Format; got {type(given).__name__}")
    return dataclasses.replace(given, name=name)


FORMATS: Registry[Format] = Registry(
    "gmmatch.formats", "format", {known.name: known for known in OWN}, _as_format
)


def register_format(added: Format) -> Format:
    """Make another kind of data known; it is asked before the project's own kinds.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> from gmmatch.data import Dataset, Format
    >>> seven = Format(
    ...     "seven",
    ...     recognise=lambda x, request: x == "seven",
    ...     open=lambda x, request: Dataset(np.full((7, 7), 7.0), "seven", "seven"),
    ...     write=lambda dataset, rows, folder: None,
    ... )
    >>> gmmatch.register_format(seven) is seven
    True
    >>> del gmmatch.data.FORMATS["seven"]
    """
    FORMATS.register(added.name, _as_format(added.name, added))
    return added


def find_format(x: object, request: Request) -> Format:
    """Return the format that recognises what was given; those that were added are asked first."""
    own = {known.name for known in OWN}
    for known in sorted(FORMATS.values(), key=lambda known: known.name in own):
        if known.recognise(x, request):
            return known
    name = x.name if isinstance(x, Place) else type(x).__name__
    raise InvalidInput(f"{name} is of a kind that is not known; expected {KNOWN}")
