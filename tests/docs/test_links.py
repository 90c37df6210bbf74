"""Every link from one page of the project to another leads somewhere, also to headings."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, PAGES, ROOT, name

LINK = re.compile(r"\]\(([^)\s]+)\)")
# Pages that are made when the site is built.
MADE = {ROOT / "docs" / "reference" / "commands.md"}


def text_of(page: Path) -> str:
    """Return a page without its code."""
    return re.sub(
        r"`[^`\n]*`", lambda found: found[0].replace("](", "] ("), FENCE.sub("", page.read_text("utf-8"))
    )


def anchors(page: Path) -> set[str]:
    """Return the names that links to a page's headings use."""
    titles = re.findall(r"^#+ +(.*?) *$", FENCE.sub("", page.read_text("utf-8")), flags=re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in LINK.findall(text_of(page)):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        known = target.exists() or target in MADE
        if not known or (
            anchor and target.suffix == ".md" and target not in MADE and anchor not in anchors(target)
        ):
            wrong.append(link)
    assert not wrong


def test_every_picture_is_named_by_a_page_and_by_a_command() -> None:
    shown = "\n".join(page.read_text("utf-8") for page in PAGES)
    made = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("## Pictures")[2]
    for picture in (ROOT / "docs" / "img").glob("*.png"):
        assert f"img/{picture.name}" in shown
        assert f"`{picture.name}`" in made


def test_the_glossary_is_short() -> None:
    words = re.findall(r"^- \*\*(.*?)\*\*", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE)
    assert 0 < len(set(words)) == len(words) <= 15
