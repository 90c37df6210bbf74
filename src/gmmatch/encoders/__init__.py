"""Images or text into embeddings: :func:`encoder` by spec string, :func:`embed_input` for whole inputs."""

from .base import Encoder, Unreadable
from .embed import Embedded, choose_encoder, embed_input
from .files import default_cache_dir
from .registry import FAMILIES, Family, encoder, register_encoder, spec_form
from .run import BadRow

__all__ = [
    "FAMILIES", "BadRow", "Embedded", "Encoder", "Family", "Unreadable", "default_cache_dir",
    "choose_encoder", "embed_input", "encoder", "register_encoder", "spec_form",
]  # fmt: skip
