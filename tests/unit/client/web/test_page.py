"""The page in a real Chromium; skipped where there is none. Quick ones run always, the others are slow."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import State
from penstock.runtime.flow import Flow
from penstock.spark.messages import BatchReport, ThreadReport
from tests.harness.waiting import LIMIT
from tests.unit.client.web.busy_application import AGGREGATE, NASTY, SOURCE, FakeTopics, busy_application
from tests.unit.client.web.served import Served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
slow = pytest.mark.slow

TABS = ("overview", "topology", "tasks", "state", "queries", "topics", "dead-letters", "logs", "settings")


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
    page = browser.new_page(viewport={"width": 1280, "height": 800}, timezone_id="UTC")
    yield watched(page, errors)
    page.close()


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = busy_application(tmp_path_factory.mktemp("busy"))
    yield served
    served.close()


def watched(page: Any, errors: list[str]) -> Any:
    """A page whose errors are kept, those against its policy among them."""
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if "Content Security Policy" in said.text else None)
    return page


def shows(page: Any, where: str, text: str | re.Pattern[str]) -> None:
    """Wait until a part of the page has a text."""
    playwright.expect(page.locator(where).first).to_contain_text(text, timeout=LIMIT * 1000)


def look_at(page: Any, served: Served, tab: str) -> None:
    page.goto(f"http://{served.address}/#/{tab}")
    shows(page, "#state", "running")


def test_should_show_the_overview_and_live_changes(page: Any, errors: list[str], busy: Served) -> None:
    look_at(page, busy, "overview")
    shows(page, ".tiles", "Total records")
    shows(page, ".tile:has-text('Lag')", "13")
    assert page.locator("svg.chart path.line").count() >= 12
    assert page.locator("svg.chart text.x").count() >= 12, "charts have a time axis"
    shows(page, "section.card:has(h2:text-is('Lag of input partitions'))", "before-0")
    before = int(page.inner_text(".tile:has-text('Total records') b").replace(",", ""))
    busy.service.history.reported({0: ThreadReport(batches=(BatchReport(0.0, 0.05, {"in": 1234}),))})
    shows(page, ".tile:has-text('Total records') b", f"{before + 1234:,}")
    assert errors == []


def test_should_ask_for_the_token_and_say_when_it_is_wrong(page: Any, errors: list[str], tmp_path: Path) -> None:
    served = Served(tmp_path, "secret").serve()
    page.goto(f"http://{served.address}/#/settings")
    playwright.expect(page.locator("#sign-in")).to_be_visible(timeout=LIMIT * 1000)
    playwright.expect(page.locator("#view")).to_be_hidden()
    page.fill("#token", "wrong")
    page.keyboard.press("Enter")
    shows(page, "#sign-in-error", "not the token")
    page.fill("#token", "secret")
    page.keyboard.press("Enter")
    shows(page, "#view", "application.server.token")
    shows(page, "#view", "[hidden]")
    assert "secret" not in page.inner_text("body")
    page.click("#sign-out")
    playwright.expect(page.locator("#sign-in")).to_be_visible()
    served.close()
    assert errors == []


def test_should_be_driven_by_keyboard_alone(page: Any, errors: list[str], busy: Served) -> None:
    look_at(page, busy, "overview")
    page.keyboard.press("5")
    playwright.expect(page.locator("#tabs a[aria-current=page]")).to_have_text("Queries")
    playwright.expect(page.locator("#store option")).to_have_count(7, timeout=LIMIT * 1000)
    page.select_option("#store", "counts")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "key"
    page.keyboard.type("k007")
    page.keyboard.press("Enter")
    shows(page, "#answer", "1970-01-01 00:00:01.007")
    assert "store=counts" in page.url
    assert "key=k007" in page.url
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    playwright.expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("1")
    page.locator("svg.chart").first.focus()
    page.keyboard.press("ArrowLeft")
    playwright.expect(page.locator(".chart-card .at").first).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
    assert errors == []


def test_should_be_usable_at_400_pixels(browser: Any, errors: list[str], busy: Served) -> None:
    page = watched(browser.new_page(viewport={"width": 400, "height": 800}), errors)
    look_at(page, busy, "topology")
    label = page.locator(".map .label").first
    playwright.expect(label).to_be_visible()
    assert label.bounding_box()["height"] > 10, "the map begins at a size that can be read"
    shows(page, "#view", "Drag the map")
    page.click("button:has-text('Whole map')")
    world, frame = page.locator("svg.map > g").bounding_box(), page.locator(".map-frame").bounding_box()
    assert world["width"] <= frame["width"]
    look_at(page, busy, "tasks")
    table = page.locator(".scroll:has(caption:text-is('Tasks'))")
    table.evaluate("element => { element.scrollLeft = 200; }")
    playwright.expect(table.locator("tbody td").first).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.close()
    assert errors == []


def test_should_align_numbers_with_separators_and_name_the_time_zone(browser: Any, errors: list[str], busy: Served) -> None:
    page = watched(browser.new_page(viewport={"width": 1280, "height": 800}, timezone_id="Asia/Kolkata"), errors)
    look_at(page, busy, "queries?mode=browse&store=counts&limit=25")
    shows(page, "#where", "times in UTC+05:30")
    page.click("button.main:visible")
    playwright.expect(page.locator("#answer th:text-is('Value')")).to_have_css("text-align", "right")
    playwright.expect(page.locator("#answer tbody tr >> nth=0 >> td >> nth=1")).to_have_css("text-align", "right")
    page.evaluate("location.hash = '#/overview'")
    playwright.expect(page.locator("td.number").first).to_have_css("text-align", "right")
    shows(page, ".tile:has-text('Total records') b", re.compile(r"^\d{1,3}(,\d{3})+$"))
    page.close()
    assert errors == []


@pytest.mark.parametrize(("apart", "lines"), [(5, 1), (55, 1), (65, 0)])
def test_should_connect_the_values_of_a_chart_that_are_less_than_a_minute_apart(
    page: Any, busy: Served, apart: int, lines: int
) -> None:
    look_at(page, busy, "overview")
    found = page.evaluate(
        """async apart => {
            const {Chart} = await import('/assets/chart.js');
            const chart = new Chart({title: 'rate', format: String, lines: [{name: 'in', at: 0, css: 'one'}]});
            document.body.append(chart.element);
            chart.update([[1000, [1]], [1000 + apart, [2]]], 900, 1000 + 2 * apart);
            return chart.element.querySelectorAll('path.line').length;
        }""",
        apart,
    )
    assert found == lines


@pytest.mark.parametrize(
    "link",
    [
        "mode=find&store=counts&key=k007&run=1",
        "mode=browse&store=counts&from=k010&to=k012&run=1",
        "mode=browse&store=windows&after=0&before=9000&run=true",
        "mode=sql&sql=select%20'chosen%20by%20another%20site'&run=1",
    ],
)
def test_should_never_run_a_query_from_an_address(page: Any, errors: list[str], busy: Served, link: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(f"http://{busy.address}")))
    look_at(page, busy, f"queries?{link}")
    shows(page, "#hint", "Press Run query")
    page.evaluate(f"location.hash = '#/queries?{link.replace(chr(39), '%27')}&again=1'")  # as another page's script would
    playwright.expect(page.locator("#store option")).to_have_count(7)
    assert [path for path in asked if path.startswith("/api/") and path not in ("/api/events", "/api/stores")] == []
    playwright.expect(page.locator("#answer")).to_be_hidden()
    if "sql" not in link:
        page.click("button.main:visible")
        shows(page, "#answer tbody", re.compile("."))
        assert len([path for path in asked if path.startswith("/api/stores/")]) == 1
    assert errors == []


def test_should_keep_a_query_that_ran_in_the_address_and_in_the_history(page: Any, errors: list[str], busy: Served) -> None:
    look_at(page, busy, "queries?mode=find&store=counts&key=k007")
    shows(page, "#hint", "Press Run query")
    page.click("button.main:visible")
    shows(page, "#answer", "1970-01-01 00:00:01.007")
    playwright.expect(page.locator("#hint")).to_be_hidden()
    page.fill("#key", "k008")
    page.keyboard.press("Enter")
    shows(page, "#answer", "1970-01-01 00:00:01.008")
    assert "key=k008" in page.url
    assert "run" not in page.url
    page.go_back()
    playwright.expect(page.locator("#key")).to_have_value("k007")
    playwright.expect(page.locator("#answer")).to_be_hidden()
    assert errors == []


def test_should_keep_the_answer_when_the_event_of_its_address_comes_late(page: Any, errors: list[str], busy: Served) -> None:
    look_at(page, busy, "queries?mode=find&store=counts&key=k007")
    shows(page, "#hint", "Press Run query")
    page.click("button.main:visible")
    shows(page, "#answer", "1970-01-01 00:00:01.007")
    page.evaluate("dispatchEvent(new HashChangeEvent('hashchange'))")
    playwright.expect(page.locator("#answer")).to_be_visible()
    assert errors == []


@slow
def test_should_open_a_shared_link_where_it_leads(page: Any, errors: list[str], busy: Served) -> None:
    look_at(page, busy, "queries?mode=browse&store=windows&limit=25")
    page.click("button.main:visible")
    shows(page, "#answer thead", "Window from")
    assert page.locator("#answer tbody tr").count() == 3
    look_at(page, busy, "queries?mode=browse&store=counts&from=k010&to=k012")
    playwright.expect(page.locator("#answer")).to_be_hidden()
    page.click("button.main:visible")
    playwright.expect(page.locator("#answer tbody tr")).to_have_count(3)
    look_at(page, busy, f"topology?node={AGGREGATE}")
    shows(page, ".details", "world.py")
    page.go_back()
    playwright.expect(page.locator("#tabs a[aria-current=page]")).to_have_text("Queries")
    assert errors == []


@slow
def test_should_draw_the_topology_with_rates_busy_nodes_and_code(page: Any, errors: list[str], busy: Served) -> None:
    flow = Flow(edges={(SOURCE, AGGREGATE): 5000}, busy={AGGREGATE: 3000}, failed={AGGREGATE: 2})  # type: ignore[arg-type]
    busy.service.history.reported({0: ThreadReport(batches=(BatchReport(0.0, 0.1, {"in": 5000}),))})
    busy.service.history.reported({0: ThreadReport("w", flow=flow)})
    look_at(page, busy, "topology")
    node = f'.map [data-node="{AGGREGATE}"]'
    shows(page, node, "busy")
    shows(page, node, "failed")
    shows(page, node, "world.py:")
    playwright.expect(page.locator(node)).to_have_class(re.compile("hot|burning"))
    assert page.locator(".map .node").count() == 8
    assert page.locator(".map .store").count() == 7
    where = "document.querySelector('svg.map > g').getAttribute('transform')"
    before = page.evaluate(where)
    page.click("button[title='Zoom in']")
    nearer = page.evaluate(where)
    assert nearer != before
    box = page.locator("svg.map").bounding_box()
    page.mouse.move(box["x"] + 30, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 130, box["y"] + 60, steps=4)
    page.mouse.up()
    assert page.evaluate(where) != nearer
    page.click(node)
    shows(page, ".details", "Time per record")
    assert "node=" in page.url
    assert errors == []


@slow
def test_should_show_tasks_state_logs_and_settings(page: Any, errors: list[str], busy: Served) -> None:
    look_at(page, busy, "tasks")
    shows(page, ".restoring", "task 0_1, counts: 250 of 1,000 records (25 %)")
    playwright.expect(page.locator("section.card:has(h2:text-is('Tasks')) tbody tr")).to_have_count(3)
    page.fill("[data-search]", "0_2")
    playwright.expect(page.locator("section.card:has(h2:text-is('Tasks')) tbody tr")).to_have_count(1)
    busy.world.loop.waiting_for_core = {"app-StreamThread-1": 12.34}
    shows(page, "section.card:has(h2:text-is('Stream threads'))", "waiting for a core of Spark (12.3 s)")
    busy.world.loop.waiting_for_core = {}
    page.click("#tabs a[href='#/state']")
    shows(page, ".tiles", "On disk")
    shows(page, "section.card:has(h2:text-is('Stores')) tbody", "counts")
    shows(page, "section.card:has(h2:text-is('By task'))", "750")  # MB of changelog lag, or entries to restore
    page.click("#tabs a[href='#/logs']")
    shows(page, "tbody", NASTY)
    assert page.locator("#view img").count() == 0, "what records say is text"
    page.select_option("select[aria-label=Level]", "40")
    playwright.expect(page.locator("#view tbody tr")).to_have_count(1)
    shows(page, "tbody", "a turn failed and is tried again")
    page.click("#tabs a[href='#/settings']")
    page.fill("[data-search]", "dead.letter")
    shows(page, "tbody", "graveyard")
    assert errors == []


@slow
def test_should_group_dead_letters_and_replay_one(page: Any, errors: list[str], tmp_path: Path) -> None:
    topics = FakeTopics()
    served = Served(tmp_path, "secret", config={"errors.dead.letter.queue.topic.name": "graveyard"}).serve(letters=topics)
    page.goto(f"http://{served.address}/#/dead-letters")
    page.fill("#token", "secret")
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".group")).to_have_count(2, timeout=LIMIT * 1000)
    shows(page, ".group >> nth=0", "ValueError")
    shows(page, ".group >> nth=0 >> .badge", "80")
    assert page.evaluate("document.documentElement.scrollHeight") < 1500
    page.click(".group >> nth=0 >> summary")
    playwright.expect(page.locator(".letter")).to_have_count(10)
    page.click(".letter >> nth=0 >> summary")
    shows(page, ".letter >> nth=0", "Traceback")
    shows(page, ".letter >> nth=0", "shop")
    assert page.locator("#view img").count() == 0
    page.on("dialog", lambda dialog: dialog.accept())
    page.click(".letter >> nth=0 >> button:has-text('Replay')")
    shows(page, ".letter >> nth=0", "written to in-")
    assert [record.topic for record in topics.written] == ["in"]
    page.fill("[data-search]", "customer")
    playwright.expect(page.locator(".group")).to_have_count(1)
    served.close()
    assert errors == []


@slow
def test_should_say_since_when_an_application_is_gone_and_come_back(page: Any, errors: list[str], tmp_path: Path) -> None:
    served = Served(tmp_path / "1").serve()
    look_at(page, served, "overview")
    port = served.service.host.port
    served.close()
    shows(page, "#state", "not reachable")
    shows(page, "#banner", re.compile(r"Not reachable since \d\d:\d\d:\d\d, for \d+ s"))
    shows(page, "#banner", "The data below is from")
    again = Served(tmp_path / "2", port=port)
    again.service.starting("Spark: a session is made, or taken")
    shows(page, "#banner", "It waits for Spark")
    shows(page, "#state", "starting")
    again.serve()
    shows(page, "#state", "running")
    playwright.expect(page.locator("#banner")).to_be_hidden(timeout=LIMIT * 1000)
    again.world.loop.membership = None
    again.world.state = State.REBALANCING
    shows(page, "#banner", "It waits for the other instances of the group")
    again.close()
    assert errors == []


@slow
def test_should_say_why_and_since_when_an_application_has_failed(page: Any, errors: list[str], tmp_path: Path) -> None:
    served = Served(tmp_path, failure=ValueError(f"boom {NASTY}")).serve(state_since=lambda: 1_700_000_000.0)
    served.world.state = State.ERROR
    page.goto(f"http://{served.address}/")
    shows(page, "#state", "failed")
    shows(page, "#banner", "has stopped after a failure, since 2023-11-14")
    shows(page, "#banner", f"ValueError: boom {NASTY}")
    assert page.locator("#banner img").count() == 0
    served.close()
    assert errors == []


@slow
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_should_be_readable_on_every_tab(browser: Any, busy: Served, width: int, scheme: str) -> None:
    errors: list[str] = []
    page = watched(browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme), errors)
    for tab in TABS:
        look_at(page, busy, tab)
        playwright.expect(page.locator("#view .card").first).to_be_visible(timeout=LIMIT * 1000)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
        assert page.evaluate("document.documentElement.scrollHeight") < 6000, "long lists have pages"
        ink, ground = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
        assert contrast(ink, ground) > 7
        soft = page.evaluate("getComputedStyle(document.querySelector('.soft')).color")
        card = page.evaluate("getComputedStyle(document.querySelector('#view .card')).backgroundColor")
        assert contrast(soft, card) > 4.5
    page.click("#theme")
    other = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert other != ground
    assert errors == []
    page.close()


@slow
def test_should_have_names_for_all_that_can_be_pressed(page: Any, busy: Served) -> None:
    for tab in TABS:
        look_at(page, busy, tab)
        nameless = page.evaluate(
            """[...document.querySelectorAll("button, input, select, textarea, a[href]")].filter(part => part.offsetParent &&
            !(part.textContent.trim() || part.getAttribute("aria-label") || part.title || part.closest("label") ||
              document.querySelector(`label[for="${part.id}"]`))).map(part => part.outerHTML)"""
        )
        assert nameless == [], tab
        assert page.evaluate("document.querySelectorAll('h1').length") == 1


def contrast(first: str, second: str) -> float:
    """Of two colours as the browser tells them, by WCAG's measure."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)
