"""The pages of the documentation, as the tests read them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", flags=re.DOTALL | re.MULTILINE)


def name(page: Path) -> str:
    """Return a page's path as a test names it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the language and the text of every code block of a page."""
    return [(language, text) for _, language, text in FENCE.findall(page.read_text(encoding="utf-8"))]
