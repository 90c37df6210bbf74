"""The one door: whatever holds rows, images or texts becomes a :class:`Dataset` here."""

from ..arrays import Rows
from ..files import machine_memory
from .columns import read_values, values_of_rows
from .dataset import Dataset, Items, Kind, Unreadable
from .formats.base import Format
from .open import FORMATS, open_dataset, register_format, write_rows
from .remote import as_address, check_addresses_apart, check_free, send
from .rows import MappedRows, StackedRows, View, ViewOf
from .spill import ForwardRows, temporary_room

__all__ = [
    "as_address", "check_addresses_apart", "check_free", "send",
    "FORMATS", "Dataset", "Format", "ForwardRows", "Items", "Kind", "MappedRows", "Rows",
    "StackedRows", "Unreadable", "View", "ViewOf", "machine_memory", "open_dataset", "read_values",
    "register_format", "temporary_room", "values_of_rows", "write_rows",
]  # fmt: skip
