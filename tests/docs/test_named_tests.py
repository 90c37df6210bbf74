"""Tests that a page names beside its sentences, as `<!-- tests/FILE.py::NAME -->`, are there."""

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, PAGES, ROOT, name

NAMED = re.compile(r"<!-- (tests/[\w/]+\.py)((?:::\w+)*) -->")


# Sections in which every item, or every paragraph, names a test of what it promises.
PROMISES = {
    "docs/reliability.md": ("What is promised", "What is not promised", "The drill"),
    "docs/reference/files.md": (
        "What is read",
        "How labels meet rows",
        "The selection file",
        "What is printed",
    ),
    "docs/scale.md": ("Where rows may be", "The three reads", "Ray"),
    "SECURITY.md": ("What is defended against",),
}
ITEM = re.compile(r"^(?=- )|\n\n", re.MULTILINE)


def names_in(file: Path) -> set[str]:
    """Return the names of a file's tests and classes of tests, as pytest spells them."""
    found = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else []
        for part in (node, *inside):
            if isinstance(part, (ast.FunctionDef, ast.ClassDef)):
                found.add(f"::{part.name}" if part is node else f"::{node.name}::{part.name}")
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if NAMED.search(page.read_text("utf-8"))], ids=name)
def test_the_tests_that_a_page_names_are_there(page: Path) -> None:
    for path, test in NAMED.findall(page.read_text("utf-8")):
        assert (ROOT / path).is_file(), path
        assert not test or test in names_in(ROOT / path), f"{path}{test}"


@pytest.mark.parametrize(("page", "title"), [(page, title) for page in PROMISES for title in PROMISES[page]])
def test_every_promise_names_a_test(page: str, title: str) -> None:
    _, _, text = (ROOT / page).read_text("utf-8").partition(f"\n## {title}\n")
    text = FENCE.sub("", text.partition("\n## ")[0])
    items = [item.strip() for item in ITEM.split(text)]
    promises = [item for item in items if item.endswith((".", "-->"))]  # neither a table nor a beginning
    assert promises
    silent = [item.splitlines()[0] for item in promises if not NAMED.search(item)]
    assert silent == [], silent


def test_the_architecture_names_files_that_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    files = set(re.findall(r"`([\w/]+(?:\.py|/))`", text))
    assert len(files) > 25
    assert [file for file in sorted(files) if not (ROOT / "src" / "gmmatch" / file).exists()] == []
