"""Takes the pictures of the console: `python docs/screenshots.py`, with Chromium on the path.

It runs the demo for two minutes and writes `docs/pictures/page*.png`, 1400 and 400 pixels wide, light and dark. The demo has no
dead letters: the pictures of a query and of dead letters show the application of the tests.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

_ROOT = Path(__file__).parent.parent
_PICTURES = Path(__file__).parent / "pictures"
_WIDE, _PHONE = {"width": 1400, "height": 860}, {"width": 400, "height": 860}
_SHOTS: dict[str, tuple[str, dict[str, Any]]] = {
    "page-readme.png": ("overview", {"viewport": {"width": 1400, "height": 330}, "color_scheme": "light"}),
    "page.png": ("overview", {"viewport": _WIDE, "color_scheme": "light"}),
    "page-dark.png": ("overview", {"viewport": _WIDE, "color_scheme": "dark"}),
    "page-topology.png": ("topology", {"viewport": _WIDE, "color_scheme": "light"}),
    "page-topology-dark.png": ("topology", {"viewport": _WIDE, "color_scheme": "dark"}),
    "page-phone.png": ("overview", {"viewport": _PHONE, "color_scheme": "light"}),
    "page-phone-dark.png": ("overview", {"viewport": _PHONE, "color_scheme": "dark"}),
    "page-phone-topology.png": ("topology", {"viewport": _PHONE, "color_scheme": "light"}),
}


def main() -> None:
    """Run the demo, take the pictures, end the demo."""
    demo = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "demo", "--seconds", "900", "--rate", "1000"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert demo.stdout is not None
        address = next(found[1] for line in demo.stdout if (found := re.search(r"(http://\S+)", line)))
        with sync_playwright() as running:
            browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            waiting = browser.new_page()
            waiting.goto(address)
            waiting.wait_for_timeout(120_000)  # charts need some minutes
            waiting.close()
            for name, (tab, settings) in _SHOTS.items():
                take(browser, f"{address}#/{tab}", _PICTURES / name, settings)
            take_query_and_dead_letters(browser)
            browser.close()
    finally:
        demo.terminate()
        demo.wait(120)


def take(browser: Browser, address: str, path: Path, settings: dict[str, Any]) -> None:
    """One picture of a tab."""
    page = browser.new_page(**settings)
    page.goto(address)
    expect(page.locator("#state")).to_have_text("running", timeout=60_000)
    page.wait_for_timeout(4_000)
    page.screenshot(path=path)
    page.close()


def take_query_and_dead_letters(browser: Browser) -> None:
    """The answer to a query; dead letters by cause, one of them open."""
    sys.path.insert(0, str(_ROOT))
    from tests.unit.client.web.busy_application import busy_application

    with tempfile.TemporaryDirectory() as folder:
        served = busy_application(Path(folder), hour=False)
        page = browser.new_page(viewport={"width": 1400, "height": 640})
        page.goto(f"http://{served.address}/#/queries?mode=browse&store=counts&limit=25")
        page.click("button.main:visible", timeout=60_000)
        page.wait_for_timeout(500)
        page.screenshot(path=_PICTURES / "page-queries.png")
        page.set_viewport_size({"width": 1400, "height": 760})
        page.goto(f"http://{served.address}/#/dead-letters")
        page.click(".group >> nth=0 >> summary", timeout=60_000)
        page.click(".letter >> nth=0 >> summary")
        page.wait_for_timeout(500)
        page.screenshot(path=_PICTURES / "page-dead-letters.png")
        page.close()
        served.close()


if __name__ == "__main__":
    main()
