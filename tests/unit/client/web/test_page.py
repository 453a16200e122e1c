"""The page in a real Chromium; skipped where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client.turns import Turn
from penstock.kafka.fetch import FetchRange
from tests.unit.client.web.served import Served
from tests.unit.client.web.test_server import fill

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def errors() -> list[str]:
    return []


@pytest.fixture
def page(browser: Any, errors: list[str]) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()


def shows(page: Any, where: str, text: str) -> None:
    """Wait until a part of the page has a text."""
    playwright.expect(page.locator(where)).to_contain_text(text, timeout=30_000)


def test_should_show_the_application_and_answer_queries_by_keyboard(page: Any, errors: list[str], tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    fill(served)
    served.service.history.turn(Turn(ranges=[FetchRange("in", 0, 0, 1234)]), {}, 0.05)
    page.goto(f"http://{served.address}/")
    shows(page, "#state", "RUNNING")
    assert page.inner_text("#total") == "1,234"
    assert page.inner_text("#lag") == "21"
    assert page.locator("#tasks tr").count() == 3
    shows(page, "#picture text.rate", "123.4/s")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    playwright.expect(page.locator("#store option")).to_have_count(7, timeout=30_000)
    page.select_option("#store", "counts")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "key"
    page.keyboard.type("k007")
    page.keyboard.press("Enter")
    shows(page, "#answer", "1007")
    page.click("#browse")
    shows(page, "#answer", "k049")
    page.click("#next")
    shows(page, "#answer", "k099")
    served.close()
    assert errors == []


def test_should_survive_a_restart_and_show_an_error(page: Any, errors: list[str], tmp_path: Path) -> None:
    served = Served(tmp_path / "1").serve()
    page.goto(f"http://{served.address}/")
    shows(page, "#state", "RUNNING")
    port = served.service.host.port
    served.close()
    shows(page, "#state", "not reachable")
    again = Served(tmp_path / "2", port=port, failure=ValueError("boom")).serve()
    shows(page, "#banner", "ValueError: boom")
    again.close()
    assert errors == []


def test_should_ask_for_the_token(page: Any, tmp_path: Path) -> None:
    served = Served(tmp_path, "secret").serve()
    page.goto(f"http://{served.address}/")
    page.wait_for_selector("#login:visible")
    page.fill("#token", "secret")
    page.keyboard.press("Enter")
    shows(page, "#state", "RUNNING")
    served.close()
