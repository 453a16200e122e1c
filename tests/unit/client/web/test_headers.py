from __future__ import annotations

import base64
import hashlib
import http.client
import re
from collections.abc import Iterator

import pytest

from tests.unit.client.web.served import Served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served")).serve()
    yield served
    served.close()


def answer(server: Served, target: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(server.service.host.host, server.service.host.port, timeout=30)
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


def test_should_let_the_page_run_its_own_script_alone(server: Served) -> None:
    response = answer(server, "/")
    text: str = response.text  # type: ignore[attr-defined]
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = response.getheader("Content-Security-Policy") or ""
    assert f"script-src 'sha256-{digest}';" in policy
    assert "connect-src 'self'" in policy
    assert not re.search(r"\son[a-z]+=", text)  # handlers in attributes would need unsafe-inline
