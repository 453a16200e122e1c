from __future__ import annotations

import http.client
import re
from collections.abc import Iterator

import pytest

from penstock.client.web.page import ASSETS
from tests.harness.waiting import LIMIT
from tests.unit.client.web.served import Served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served")).serve()
    yield served
    served.close()


def answer(server: Served, target: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(server.service.host.host, server.service.host.port, timeout=LIMIT)
    try:
        connection.request(method, target, headers=headers)
        response = connection.getresponse()
        response.text = response.read().decode(errors="replace")  # type: ignore[attr-defined]
        return response
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("status", "method", "target", "host"),
    [
        (200, "GET", "/", "localhost"),
        (200, "GET", "/api/app", "localhost"),
        (200, "GET", "/metrics", "localhost"),
        (200, "GET", "/api/stores/counts/table", "localhost"),
        (404, "GET", "/nothing", "localhost"),
        (400, "GET", "/api/stores/counts/range?limit=0", "localhost"),
        (405, "POST", "/api/app", "localhost"),
        (403, "GET", "/api/app", "evil.example"),
    ],
)
def test_should_tell_browsers_to_frame_nothing_and_to_tell_nobody(
    server: Served, status: int, method: str, target: str, host: str
) -> None:
    response = answer(server, target, method, Host=host)
    assert response.status == status
    policy = dict(part.strip().split(" ", 1) for part in (response.getheader("Content-Security-Policy") or "").split(";"))
    for directive in ("default-src", "frame-ancestors", "base-uri", "form-action"):
        assert policy[directive] == "'none'"
    assert response.getheader("X-Frame-Options") == "DENY"
    assert response.getheader("X-Content-Type-Options") == "nosniff"
    assert response.getheader("Referrer-Policy") == "no-referrer"
    assert response.getheader("Cross-Origin-Resource-Policy") == "same-origin"


def test_should_let_the_page_run_its_own_scripts_alone(server: Served) -> None:
    response = answer(server, "/")
    text: str = response.text  # type: ignore[attr-defined]
    policy = response.getheader("Content-Security-Policy") or ""
    for part in ("script-src 'self'", "style-src 'self'", "connect-src 'self'", "require-trusted-types-for 'script'"):
        assert f"{part};" in policy
    assert "unsafe" not in policy
    assert not re.search(
        r"<script(?![^>]*\ssrc=)[^>]*>|<style|\sstyle=|\son[a-z]+=", text
    )  # nothing of it stands in the document


def test_should_serve_the_files_of_the_page_and_no_others(server: Served) -> None:
    named = set(re.findall(r'(?:src|href)="(/assets/[^"]+)"', answer(server, "/").text))  # type: ignore[attr-defined]
    for path in {*named, *ASSETS}:
        response = answer(server, path)
        assert response.status == 200
        assert response.getheader("Content-Type", "").startswith(("text/css", "text/javascript", "image/svg+xml"))
        assert response.getheader("X-Content-Type-Options") == "nosniff"
        text: str = response.text  # type: ignore[attr-defined]
        assert all(f"/assets/{name}" in ASSETS for name in re.findall(r'from "\./([^"]+)"', text))
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|DOMParser|https?://(?!www\.w3\.org)", text
        )
    for path in ("/assets/", "/assets/page.py", "/assets/../page.py", "/assets/%2e%2e/page.py", "/assets/index.html"):
        assert answer(server, path).status in (401, 404)
