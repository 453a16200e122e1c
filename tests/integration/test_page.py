"""The page of a real WordCount in a real Chromium: the right numbers, a restart, dead letters, an error."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.kafka import Kafka, unique, wait_until
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
            playwright.expect(page.locator(where)).to_contain_text(text, timeout=60_000)

        page.goto(f"http://localhost:{port}/")
        shows("#state", "RUNNING")
        kafka.feed(source, texts(*((f"{number}", "all streams lead to kafka") for number in range(300)), ("x", "boom")))
        shows("#total", "301")
        playwright.expect(page.locator("#lag")).to_have_text("0", timeout=60_000)
        edges = page.locator("#picture text.rate:not(.still)")
        wait_until(lambda: edges.count() >= 6, "records are seen on their way")
        shows("#dead-letters", "boom is not allowed here")
        shows("#dead-letters", dead)
        shows("#dead-total", "1 in all")
        page.select_option("#store", "counts")
        page.fill("#key", "KAFKA")
        page.press("#key", "Enter")
        shows("#answer", '"value": 300')
        assert page.locator("#tasks tr").count() == 2  # what is before the shuffle has no tasks of its own

        first.close()
        shows("#state", "not reachable")
        second = run(shouted_words(source, out), config)
        shows("#state", "RUNNING")
        page.press("#key", "Enter")
        shows("#answer", '"value": 300')

        kafka.feed(source, texts(("x", "boom")))  # nobody has said now that it may go on
        shows("#state", "ERROR")
        shows("#banner", "boom is not allowed here")
        assert second.state.name == "ERROR"
        page.press("#key", "Enter")
        shows("#answer", "State is ERROR")
        second.close()
        shows("#state", "not reachable")
        assert errors == []
        browser.close()
