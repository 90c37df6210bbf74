"""Pages in the system's Chromium, with the network off, and everything that they complain of."""

from __future__ import annotations

import shutil
import time

import numpy as np
import pytest

import gmmatch
from gmmatch.data import Dataset, open_dataset
from gmmatch.reporting import Content, summarise, write_report

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
)
MARKUP = "<img src=x onerror=alert(1)>"
SCRIPT = "\"quoted\" 'id' </script><script>alert(2)</script>"


@pytest.fixture(scope="session")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"the browser tests need Chromium: none of {', '.join(NAMES)} is installed")
    with api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def visit(browser):
    """Return a function that opens a report; at the end, the page must not have complained."""
    contexts, complaints = [], []

    def opened(path, **options):
        usual = {"viewport": {"width": 1300, "height": 900}, "reduced_motion": "reduce"}
        context = browser.new_context(**(usual | options))
        contexts.append(context)
        context.set_default_timeout(20_000)
        context.set_offline(True)
        page = context.new_page()
        page.asked = []

        def route(found):
            page.asked.append(found.request.url)
            if found.request.url == path.as_uri():
                found.continue_()
            else:
                found.abort()

        def console(message):
            if message.type in ("error", "warning"):
                complaints.append(message.text)

        page.route("**/*", route)
        page.on("console", console)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
        page.goto(path.as_uri())
        page.locator("html[data-ready=true]").wait_for(state="attached")
        settle(page)
        return page

    opened.complaints = complaints
    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def settle(page):
    """Wait until what was asked for has been drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    time.sleep(0.05)


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """Return a report of images with hostile names, and what is in it."""
    rng = np.random.default_rng(0)
    names = np.array([MARKUP, "bee", "cow & calf"])
    codes = np.repeat([0, 1, 2], [40, 80, 180])
    rows = rng.normal(size=(300, 8)) + 2.5 * codes[:, None]
    labels = names[codes]
    labels[295:] = names[0]
    rows[290:294] = rows[289]
    ids = np.array([f"{SCRIPT} {row}" for row in range(300)])
    images = np.zeros((300, 8, 8), np.uint8)
    images[:, :, 0] = np.arange(300)[:, None] % 256
    selection = gmmatch.select(rows, keep=0.2, labels=labels)
    source = Dataset(rows, MARKUP, "array", labels=labels, ids=ids)
    report = summarise(
        selection, source, content=Content(open_dataset(images, holds="image")), command=SCRIPT
    )
    path = tmp_path_factory.mktemp("reports") / "digits.html"
    write_report(report, path)
    return path, report
