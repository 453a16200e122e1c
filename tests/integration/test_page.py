"""The page of a real WordCount in a real Chromium: the right numbers, a restart, dead letters, an error."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import texts, topics
from tests.integration.query_topologies import shouted_words

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]

Run = Callable[..., Any]


def test_should_show_a_word_count_through_a_restart_and_a_failure(kafka: Kafka, run: Run) -> None:
    source, out, dead = topics(kafka, "lines", "counts", "dead")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = {"application.id": unique("page"), "application.server": f"localhost:{port}", "num.stream.threads": 2}
    careful = {
        **config,
        "processing.exception.handler": "log_and_continue",
        "errors.dead.letter.queue.topic.name": dead,
    }
    first = run(shouted_words(source, out), careful)
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page, errors = browser.new_page(viewport={"width": 390, "height": 800}), list[str]()
        page.on("pageerror", lambda error: errors.append(str(error)))

        def shows(where: str, text: str) -> None:
            playwright.expect(page.locator(where).first).to_contain_text(text, timeout=LIMIT * 1000)

        page.goto(f"http://localhost:{port}/")
        shows("#state", "running")
        kafka.feed(source, texts(*((f"{number}", "all streams lead to kafka") for number in range(300)), ("x", "boom")))
        shows(".tile:has-text('Total records')", "1,801")  # 301 lines, and 1,500 words through their topic
        playwright.expect(page.locator(".tile:has-text('Lag') b")).to_have_text("0", timeout=LIMIT * 1000)
        shows("section.card:has(h2:text-is('Lag of input partitions'))", f"{source}-0")

        page.goto(f"http://localhost:{port}/#/topology")
        edges = page.locator("svg.map path.edge.flows")
        wait_until(lambda: edges.count() >= 6, "records are seen on their way")
        shows("svg.map", "query_topologies.py:")

        page.goto(f"http://localhost:{port}/#/dead-letters")
        shows(".group", "boom is not allowed here")
        page.click(".group >> nth=0 >> summary")
        page.click(".letter >> nth=0 >> summary")
        shows(".letter >> nth=0", "Traceback")
        shows(".letter >> nth=0", f"{dead}-0 @ 0")
        shows("#tabs a[href='#/dead-letters'] .badge", "1")

        page.goto(f"http://localhost:{port}/#/queries?mode=find&store=counts&key=KAFKA")
        page.click("button.main:visible")
        shows("#answer", "300")
        page.goto(f"http://localhost:{port}/#/tasks")
        tasks = page.locator("section.card:has(h2:text-is('Tasks')) tbody tr")
        playwright.expect(tasks).to_have_count(4)  # two for the lines, two for the words
        page.goto(f"http://localhost:{port}/#/state")
        shows("section.card:has(h2:text-is('By task'))", "counts")

        first.close()
        shows("#state", "not reachable")
        second = run(shouted_words(source, out), config)
        shows("#state", "running")
        page.goto(f"http://localhost:{port}/#/queries?mode=find&store=counts&key=KAFKA&limit=25")
        page.click("button.main:visible")
        shows("#answer", "300")

        kafka.feed(source, texts(("x", "boom")))  # nobody has said now that it may go on
        shows("#state", "failed")
        shows("#banner", "boom is not allowed here")
        assert second.state.name == "ERROR"
        page.click("button.main:visible")
        shows("#answer", "State is ERROR")
        second.close()
        shows("#state", "not reachable")
        assert errors == []
        browser.close()
