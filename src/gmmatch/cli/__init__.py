"""The command `gmmatch`: one file per command, each calls one function of the layers above."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .commands import app

__all__ = ["app", "main"]

INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    try:
        from .commands import app

        app()
    # Typer catches an interrupt of a command; this one came while it was being imported.
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .commands import app

    return app
