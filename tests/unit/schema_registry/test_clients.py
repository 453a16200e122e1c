"""The client: one for each registry, logged in as the settings say."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock import ConfigError
from penstock.schema_registry import AvroSerde
from penstock.schema_registry.clients import client_for


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """A registry with the schema "string" under the id 7, which remembers who asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer({"id": 7, "schema": '"string"', "subject": "names-value", "version": 1})

        def do_GET(self) -> None:
            self._answer({"id": 7, "schema": '"string"'})

        def _answer(self, body: dict) -> None:
            asked.append((self.command, self.path.partition("?")[0], self.headers["Authorization"]))
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    asked: list[tuple[str, str, str | None]] = []
    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.asked = asked  # type: ignore[attr-defined]
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def test_should_log_in_and_ask_once(server):
    registry = {
        "schema.registry.url": f"http://127.0.0.1:{server.server_address[1]}",
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": "me:letmein",
    }
    serde = AvroSerde('"string"', registry)
    for name in ("ann", "bob", "cid"):
        assert serde.deserializer("names", serde.serializer("names", name)) == name
    assert serde.serializer("names", "ann") == bytes.fromhex("00 00000007 06616e6e")
    assert {login for _, _, login in server.asked} == {"Basic " + base64.b64encode(b"me:letmein").decode()}
    assert len(server.asked) == len({path for _, path, _ in server.asked})


def test_should_have_one_client_for_each_registry():
    one = client_for({"url": "http://one"})
    assert client_for({"url": "http://one"}) is one
    assert client_for({"url": "http://two"}) is not one
    assert client_for({"url": "mock://one"}) is client_for({"url": "mock://one", "basic.auth.user.info": "me:x"})


def test_should_say_which_setting_the_client_does_not_take():
    with pytest.raises(ConfigError, match=r"cannot be made with these settings: .*no\.such\.setting") as caught:
        client_for({"url": "http://one", "no.such.setting": "x", "basic.auth.user.info": "me:letmein"})
    assert "letmein" not in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be made"):
        client_for({"url": "https://one", "ssl.ca.location": "/no/such/file"})
