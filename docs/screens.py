"""Pictures of the reports that the tutorials write, in the system's Chromium.

``python docs/screens.py photos.html requests.html`` writes report-light.png, report-dark.png,
report-suspects.png and texts-report.png to docs/img.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(__file__).parent / "img"
SIZE, SCALE = {"width": 1280, "height": 1147}, 0.75
DECISIONS = ("w", "w", "r", "w")


def keep(name: str, picture: bytes) -> None:
    """Write a picture with few colours, which is small."""
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(128).save(FOLDER / name, optimize=True)


def visit(browser: Browser, page: str, scheme: str = "light") -> Any:
    """Open a page in some colours."""
    opened = browser.new_page(viewport=SIZE, color_scheme=scheme, device_scale_factor=SCALE)
    opened.goto(Path(page).resolve().as_uri())
    opened.wait_for_timeout(1000)
    return opened


def main() -> None:
    """Take all pictures."""
    photos, texts = sys.argv[1:]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            keep(f"report-{scheme}.png", visit(browser, photos, scheme).screenshot())
        keep("texts-report.png", visit(browser, texts).screenshot())
        page = visit(browser, photos)
        page.get_by_role("tab", name="Labels").click()
        for key in DECISIONS:
            page.keyboard.press(key)
        keep("report-suspects.png", page.locator("#review").screenshot())
        browser.close()


if __name__ == "__main__":
    main()
