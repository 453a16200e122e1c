"""The page in a real Chromium; skipped where there is none."""

from __future__ import annotations

import logging
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import State, TaskId, TopicPartition
from penstock.client.turns import Turn
from penstock.dead_letters import DeadLetter
from penstock.kafka.fetch import FetchRange
from penstock.runtime.flow import Flow
from penstock.spark.messages import LaneAnswer, RestoreProgress
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


def asks_for_a_key(page: Any, answer: str) -> None:
    """The box at the bottom, once the page knows the stores."""
    playwright.expect(page.locator("#store option")).to_have_count(7, timeout=30_000)
    page.select_option("#store", "counts")
    page.fill("#key", "k007")
    page.keyboard.press("Enter")
    shows(page, "#answer", answer)


def test_should_show_the_application_and_answer_queries_by_keyboard(page: Any, errors: list[str], tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    fill(served)
    served.service.history.turn(Turn(ranges=[FetchRange("in", 0, 0, 1234)]), {}, 0.05)
    page.goto(f"http://{served.address}/")
    shows(page, "#state", "RUNNING")
    assert page.inner_text("#total") == "1,234"
    assert page.inner_text("#lag") == "13"
    assert page.locator("#tasks tr").count() == 3
    served.world.conductor.waiting_for_core = {"app-StreamThread-1": 12.34}
    shows(page, "#threads", "waiting for a core (12.3 s)")
    shows(page, '#picture text.rate[data-edge="in\\a KSTREAM-SOURCE-0000000000"]', "123.4/s")
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


def test_should_survive_a_restart(page: Any, errors: list[str], tmp_path: Path) -> None:
    served = Served(tmp_path / "1").serve()
    served.service.history.turn(Turn(ranges=[FetchRange("in", 0, 0, 1234)]), {}, 0.05)
    page.goto(f"http://{served.address}/")
    shows(page, "#total", "1,234")
    port = served.service.host.port
    served.close()
    shows(page, "#state", "not reachable")
    assert page.is_visible("#banner")
    again = Served(tmp_path / "2", port=port).serve()
    fill(again)
    again.service.history.turn(Turn(ranges=[FetchRange("in", 0, 0, 77)]), {}, 0.05)
    shows(page, "#state", "RUNNING")
    shows(page, "#total", "77")
    assert page.is_hidden("#banner")
    asks_for_a_key(page, "1007")
    again.close()
    assert errors == []


def test_should_show_an_error(page: Any, errors: list[str], tmp_path: Path) -> None:
    served = Served(tmp_path, failure=ValueError("boom")).serve()
    served.world.state = State.ERROR
    logging.getLogger("penstock.client").error("the application stops after a failure: boom")
    page.goto(f"http://{served.address}/")
    shows(page, "#banner", "ValueError: boom")
    shows(page, "#state.ERROR", "ERROR")
    shows(page, "#errors", "the application stops after a failure: boom")
    asks_for_a_key(page, "State is ERROR")
    served.close()
    assert errors == []


def test_should_ask_for_the_token(page: Any, tmp_path: Path) -> None:
    served = Served(tmp_path, "secret").serve()
    page.goto(f"http://{served.address}/")
    page.wait_for_selector("#login:visible")
    page.fill("#token", "secret")
    page.keyboard.press("Enter")
    shows(page, "#state", "RUNNING")
    served.close()


def test_should_show_rates_dead_letters_and_what_is_restored(page: Any, errors: list[str], tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    fill(served)
    source, aggregate = "KSTREAM-SOURCE-0000000000", "KSTREAM-AGGREGATE-0000000001"
    letter = DeadLetter("graveyard", 1_700_000_000_000, "ValueError", "no number", "in", 2, 41)
    answer = LaneAnswer("worker", flow=Flow(Counter({(source, aggregate): 500}), 7, [letter]))
    history = served.service.history
    history.turn(Turn(ranges=[FetchRange("in", 0, 0, 1000)]), {0: answer}, 0.05)
    progress = RestoreProgress(TaskId(0, 1), "counts", TopicPartition("app-counts-changelog", 1), 0, 250, 1000, 250)
    history.restore(progress, "batch")
    page.goto(f"http://{served.address}/")
    shows(page, f'#picture text.rate[data-edge="in\\a {source}"]', "100/s")
    shows(page, f'#picture text.rate[data-edge="{source}\\a {aggregate}"]', "50/s")
    assert page.locator("#picture text.rate").count() == page.locator("#picture path.edge").count() > 7
    for text in ("in-2 @ 41", "graveyard", "ValueError: no number"):
        shows(page, "#dead-letters", text)
    shows(page, "#dead-total", "7 in all")
    shows(page, "#restoring", "0_1 counts: 250 of 1,000")
    shows(page, "#tasks tr:nth-child(2)", "RESTORING")
    assert page.locator("#restoring progress").get_attribute("value") == "250"
    history.restore(progress, "end")
    playwright.expect(page.locator("#restoring-card")).to_be_hidden(timeout=30_000)
    shows(page, "#tasks tr:nth-child(2)", "RUNNING")
    served.close()
    assert errors == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_should_be_readable_in_light_and_dark_on_any_width(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    served = Served(tmp_path).serve()
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(f"http://{served.address}/")
    shows(page, "#state", "RUNNING")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ink, ground = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
    assert contrast(ink, ground) > 7
    page.close()
    served.close()


def contrast(first: str, second: str) -> float:
    """Of two colours as the browser tells them, by WCAG's measure."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)
