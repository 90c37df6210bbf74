"""Where rows come from: arrays, `.npy` files and shards, Parquet, Arrow, Hugging Face, safetensors."""

from .base import ChosenRows, RowView, Source
from .opening import open_source, read_values

__all__ = ["ChosenRows", "RowView", "Source", "open_source", "read_values"]
