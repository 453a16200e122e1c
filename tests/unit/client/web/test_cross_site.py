"""What a browser asks for in the name of somebody who looks at a page of another site."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.waiting import LIMIT
from tests.unit.client.web.served import Served
from tests.unit.client.web.test_server import fill

PATHS = ("/api/app", "/api/stores", "/api/stores/counts/keys/k001", "/api/stores/counts/range", "/metrics", "/openapi.json", "/")


@pytest.fixture(params=[None, "secret"], ids=["without a token", "with a token"])
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    served = Served(tmp_path, request.param).serve()
    fill(served)
    yield served
    served.close()


TOKEN = {"Authorization": "Bearer secret"}


@pytest.mark.parametrize(
    "sent",
    [
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Site": "something new"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:1"},
        {"Origin": "null"},
        {"Origin": "http://user@[::1"},
        {"Origin": "file://"},
    ],
    ids=str,
)
def test_should_refuse_pages_of_other_sites(served: Served, sent: dict[str, str]) -> None:
    for path in PATHS:
        status, found = served.get(path, {**TOKEN, **sent})
        assert (status, "another site" in found["error"]) == (403, True), path


def test_should_answer_its_own_page_and_those_who_are_no_pages(served: Served) -> None:
    same: dict[str, str] = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
    typed = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for sent in (same, typed, {}, {"Origin": f"http://{served.address}"}, {**same, "Origin": f"https://{served.address}"}):
        for path in PATHS:
            assert served.get(path, {**TOKEN, **sent})[0] == 200, (path, sent)


def test_should_let_a_link_of_another_site_lead_to_the_page_and_nowhere_else(served: Served) -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert served.get("/", {**TOKEN, **followed})[0] == 200
    assert {served.get(path, {**TOKEN, **followed})[0] for path in PATHS if path != "/"} == {403}


def test_should_say_on_every_answer_that_no_other_site_may_embed_it(served: Served) -> None:
    for path in (*PATHS, "/nothing", "/api/stores/counts/keys/nobody", "/api/stores/counts/table"):
        for headers in (TOKEN, {}, {**TOKEN, "Origin": "https://evil.example"}):
            connection = http.client.HTTPConnection(served.service.host.host, served.service.host.port, timeout=LIMIT)
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            assert answer.getheader("cross-origin-resource-policy") == "same-origin", path
            assert "Sec-Fetch-Site" in str(answer.getheader("vary")), path
            assert not [name for name, _ in answer.getheaders() if name.lower().startswith("access-control-")]


def test_should_not_answer_what_a_browser_asks_before_it_asks_for_another_site(served: Served) -> None:
    sent = {"Origin": "https://evil.example", "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "x"}
    assert served.get("/api/stores", sent, "OPTIONS")[0] == 403
