"""A registry that does not answer: handlers are asked, are told that it may pass, and a later try goes well."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from penstock import (
    Consumed,
    DefaultProductionExceptionHandler,
    DeserializationError,
    DeserializationExceptionHandler,
    Produced,
    ProductionError,
    RegistryUnavailableError,
    Response,
    Serdes,
    SerializationError,
    StreamsBuilder,
    TopologyTestDriver,
)
from penstock.schema_registry import AvroSerde

TEXT = Serdes.string()
ANN = bytes.fromhex("00 00000007 06616e6e")


class Registry(ThreadingHTTPServer):
    """Has the schema "string" under the id 7, unless it is told to answer with another status."""

    status = 200

    @property
    def settings(self) -> dict[str, Any]:
        return {"schema.registry.url": f"http://127.0.0.1:{self.server_address[1]}", "schema.registry.max.retries": 0}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def do_GET(self) -> None:
        status = self.server.status  # type: ignore[attr-defined]
        found = {"id": 7, "schema": '"string"', "subject": "names-value", "version": 1}
        data = json.dumps(found if status == 200 else {"error_code": status, "message": "not now"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    found = Registry(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


@pytest.mark.parametrize("status", [500, 503, 429])
def test_should_tell_an_outage_from_a_bad_record_and_go_on_after_it(registry: Registry, status: int) -> None:
    serde: AvroSerde[str] = AvroSerde('"string"', registry.settings)
    registry.status = status
    with pytest.raises(RegistryUnavailableError, match="not now"):
        serde.serializer("names", "ann")
    with pytest.raises(RegistryUnavailableError, match="not now"):
        serde.deserializer("names", ANN)
    registry.status = 200
    assert serde.serializer("names", "ann") == ANN
    assert serde.deserializer("names", ANN) == "ann"


@pytest.mark.parametrize("status", [401, 404, 422])
def test_should_not_call_it_an_outage_where_waiting_does_not_help(registry: Registry, status: int) -> None:
    serde: AvroSerde[str] = AvroSerde('"string"', registry.settings)
    registry.status = status
    with pytest.raises(SerializationError) as caught:
        serde.deserializer("names", ANN)
    assert not isinstance(caught.value, RegistryUnavailableError)


def test_should_call_it_an_outage_where_nobody_listens() -> None:
    serde: AvroSerde[str] = AvroSerde('"string"', {"schema.registry.url": "http://127.0.0.1:9", "schema.registry.max.retries": 0})
    with pytest.raises(RegistryUnavailableError, match="refused"):
        serde.serializer("names", "ann")


class Reading(DeserializationExceptionHandler):
    """Goes on without bad records, but not without a registry."""

    def handle_error(self, context: Any, record: Any, exception: Exception) -> Response:
        return Response.fail() if isinstance(exception, RegistryUnavailableError) else Response.resume()


class Writing(DefaultProductionExceptionHandler):
    def handle_serialization_error(self, context: Any, record: Any, exception: Exception, origin: Any) -> Response:
        return Response.fail() if isinstance(exception, RegistryUnavailableError) else Response.resume()


def test_should_ask_the_deserialization_handler_about_an_outage(registry: Registry) -> None:
    names: AvroSerde[str] = AvroSerde('"string"', registry.settings)
    builder = StreamsBuilder()
    builder.stream("names", Consumed(TEXT, names)).to("out", Produced(TEXT, TEXT))
    registry.status = 503
    with TopologyTestDriver(builder.build(), {"deserialization.exception.handler": Reading}) as driver:
        topic = driver.create_input_topic("names", TEXT, Serdes.bytes())
        topic.pipe_value(b"no avro")
        with pytest.raises(DeserializationError) as caught:
            topic.pipe_value(ANN)
        assert isinstance(caught.value.__cause__, RegistryUnavailableError)


def test_should_ask_the_production_handler_about_an_outage(registry: Registry) -> None:
    names: AvroSerde[str] = AvroSerde('"string"', registry.settings)
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).to("names", Produced(TEXT, names))
    registry.status = 503
    with (
        TopologyTestDriver(builder.build(), {"production.exception.handler": Writing}) as driver,
        pytest.raises(ProductionError) as caught,
    ):
        driver.create_input_topic("in", TEXT, TEXT).pipe_value("ann")
    assert isinstance(caught.value.__cause__, RegistryUnavailableError)
