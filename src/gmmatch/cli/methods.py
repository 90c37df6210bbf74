"""`gmmatch methods`: what can be chosen."""

import shutil
import sys

from ..selectors import METHODS
from .friendly import print_table, say

_ROOM = 160  # letters of a line that six columns can be read in


def methods() -> None:
    """List the selection methods: what each keeps, needs and costs, and where it comes from.

    A narrow terminal shows the first three columns. What each can do: pick in `batches` from rows larger
    than memory; run on `clusters`; give `prefixes` (the first picks are those of a smaller budget; of
    gm-matching with labels, and not in batches); the same rows in `any order` of the input (copies
    and exact ties apart); `no seed` needed.

    Example: gmmatch methods
    """
    columns = ("method", "keeps", "needs", "can", "cost", "source")
    narrow = sys.stdout.isatty() and shutil.get_terminal_size().columns < _ROOM
    shown = columns[:3] if narrow else columns
    lines = ((method.name, *(getattr(method, name) for name in shown[1:])) for method in METHODS.values())
    print_table(shown, lines, width=300, words=len(shown))  # a pipe wants whole lines
    if narrow:
        say("What each can do, what it costs and where it comes from: gmmatch methods | less -S", err=False)
