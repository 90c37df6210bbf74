"""`gmmatch methods`: what can be chosen."""

from ..selectors import METHODS


def methods() -> None:
    """List the selection methods: what each keeps, needs and costs, and where it comes from.

    What each can do: pick in `batches` from rows larger than memory; run on `clusters`; give `prefixes` (the
    first picks are those of a smaller budget; of gm-matching with labels, and not in batches); the same rows
    in `any order` of the input; `no seed` needed.

    Example: gmmatch methods
    """
    from rich.console import Console
    from rich.table import Table

    columns = ("method", "keeps", "needs", "can", "cost", "source")
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for method in METHODS.values():
        table.add_row(method.name, method.keeps, method.needs, method.can, method.cost, method.source)
    console = Console()
    if not console.is_terminal:  # a pipe wants whole lines
        console = Console(width=300)
    console.print(table)
