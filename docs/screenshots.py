"""Takes the pictures of the page from a running demo: `python docs/screenshots.py`, with Chromium on the path.

It asks the demo for its address, waits until there is something to see, and writes `docs/pictures/page*.png`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

_PICTURES = Path(__file__).parent / "pictures"
_SHOTS: dict[str, dict[str, Any]] = {
    "page.png": {"viewport": {"width": 1280, "height": 1500}, "color_scheme": "light"},
    "page-dark.png": {"viewport": {"width": 1280, "height": 1500}, "color_scheme": "dark"},
    "page-phone.png": {"viewport": {"width": 390, "height": 1100}, "color_scheme": "light"},
}


def main() -> None:
    """Run the demo, look at it, end it."""
    demo = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "demo", "--seconds", "600", "--rate", "2000"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert demo.stdout is not None
        address = next(found[1] for line in demo.stdout if (found := re.search(r"(http://\S+)", line)))
        with sync_playwright() as running:
            browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for name, settings in _SHOTS.items():
                take(browser, address, _PICTURES / name, settings)
            browser.close()
    finally:
        demo.terminate()
        demo.wait(120)


def take(browser: Browser, address: str, path: Path, settings: dict[str, Any]) -> None:
    """One picture, with a query answered."""
    page = browser.new_page(**settings)
    page.goto(address)
    expect(page.locator("#state")).to_have_text("RUNNING", timeout=60_000)
    expect(page.locator("#picture text.rate:not(.still)").first).to_be_visible(timeout=60_000)
    page.wait_for_timeout(25_000)  # charts need some minutes' parts
    page.select_option("#store", "counts")
    page.fill("#key", "kafka")
    page.press("#key", "Enter")
    expect(page.locator("#answer")).to_contain_text("value", timeout=30_000)
    page.evaluate("document.activeElement.blur()")
    page.screenshot(path=path)
    page.close()


if __name__ == "__main__":
    main()
