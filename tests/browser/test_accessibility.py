"""axe-core finds nothing serious on the report's page and on the site of the documentation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
AXE = ROOT / "out" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = {"serious", "critical"}
PAGES = [
    "index",
    "start/photos",
    "howto/i-want-to",
    "howto/expectations",
    "howto/read-the-report",
    "reference/python",
    "reference/commands",
    "results/teach",
    "glossary",
    "reliability",
    "scale",
    "drill",
    "training",
    "results/fashion-mnist",
]


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.is_file():
        pytest.skip("accessibility is checked by axe-core: sh tests/browser/install-axe.sh fetches it")
    return AXE.read_text(encoding="utf-8")


def serious(page, axe: str) -> list[str]:
    """Return what axe finds serious, a line for each rule, with the first place."""
    page.evaluate(axe)  # the page's policy lets no element of the page bring a script
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert page.evaluate("typeof axe.version") == "string"
    return [
        f"{each['id']}, {len(each['nodes'])} times: {each['nodes'][0]['html'][:120]}"
        for each in found
        if each["impact"] in SERIOUS
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 390])
def test_the_report_has_no_serious_findings(visit, digits, axe, scheme, width) -> None:
    path, _ = digits
    page = visit(path, color_scheme=scheme, viewport={"width": width, "height": 900})
    assert serious(page, axe) == []
    page.get_by_role("tab", name="Labels").click()
    page.keyboard.press("w")
    page.locator("#search").fill("1")
    assert serious(page, axe) == []


def test_what_is_wrong_is_found(visit, digits, axe) -> None:
    path, _ = digits
    page = visit(path)
    page.evaluate("document.getElementById('curve').removeAttribute('aria-label')")
    assert [line.partition(",")[0] for line in serious(page, axe)] == ["role-img-alt"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 390])
def test_the_site_has_no_serious_findings(browser, site, axe, scheme, width) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    found = {}
    for name in PAGES:
        page = context.new_page()
        page.goto((site / f"{name}.html").as_uri())
        page.wait_for_timeout(100)  # the theme lays out tables when the page is there
        if lines := serious(page, axe):
            found[name] = lines
        page.close()
    context.close()
    assert found == {}
