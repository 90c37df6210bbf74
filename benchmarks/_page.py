"""Pages of results: question, answer, command, what they do not show, and which picks they are of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.check_figures import digest

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


@dataclass(frozen=True)
class Page:
    """One page; `answer` says first where the product loses, `command` how figures were made and settings."""

    title: str
    question: str
    answer: str
    command: str
    shows_not: str
    parts: Sequence[str]

    def write(self, file: Path) -> None:
        """Write the page with the digest of today's picks."""
        head = [
            f"# {self.title}",
            f"**Question.** {self.question}",
            f"**Answer.** {self.answer}",
            f"**Command.** {self.command}",
            f"**It does not show** {self.shows_not}",
            f"**Picks** `{digest()}`",
        ]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n\n".join([*head, *self.parts]) + "\n", encoding="utf-8")
