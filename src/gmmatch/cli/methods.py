"""`gmmatch methods`: what can be chosen."""

from __future__ import annotations

from ..selectors import METHODS


def methods() -> None:
    """List the selection methods: what each keeps, needs and costs, and where it comes from.

    Example: gmmatch methods
    """
    from rich.console import Console
    from rich.table import Table

    table = Table("method", "keeps", "needs", "cost", "source", box=None, header_style="bold", pad_edge=False)
    for method in METHODS.values():
        table.add_row(method.name, method.keeps, method.needs, method.cost, method.source)
    console = Console()
    if not console.is_terminal:  # a pipe wants whole lines
        console = Console(width=240)
    console.print(table)
