"""`gmmatch methods`: what can be chosen."""

from ..selectors import METHODS
from ._friendly import print_table


def methods() -> None:
    """List the selection methods: what each keeps, needs and costs, and where it comes from.

    What each can do: pick in `batches` from rows larger than memory; run on `clusters`; give `prefixes` (the
    first picks are those of a smaller budget; of gm-matching with labels, and not in batches); the same rows
    in `any order` of the input; `no seed` needed.

    Example: gmmatch methods
    """
    columns = ("method", "keeps", "needs", "can", "cost", "source")
    lines = (
        (method.name, method.keeps, method.needs, method.can, method.cost, method.source)
        for method in METHODS.values()
    )
    print_table(columns, lines, width=300, words=len(columns))  # a pipe wants whole lines
