"""Images or text into embeddings: :func:`encoder` by spec string, :func:`embed_input` for whole inputs."""

from ..data import Unreadable
from ..files import cache_folder as default_cache_dir
from .base import Encoder
from .embed import BadRow, Embedded, choose_encoder, embed_input
from .registry import FAMILIES, Family, encoder, register_encoder, spec_form

__all__ = [
    "FAMILIES", "BadRow", "Embedded", "Encoder", "Family", "Unreadable", "default_cache_dir",
    "choose_encoder", "embed_input", "encoder", "register_encoder", "spec_form",
]  # fmt: skip
