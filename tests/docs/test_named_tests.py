"""Tests that a page names beside its sentences, as `<!-- tests/FILE.py::NAME -->`, are there."""

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, name

NAMED = re.compile(r"<!-- (tests/[\w/]+\.py)((?:::\w+)*) -->")


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
