"""The query server over TLS: real servers, real certificates."""

from __future__ import annotations

import http.client
import logging
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigError, StateStoreNotAvailableError, TaskId, ValueAndTimestamp
from penstock.query import server_tls as server_tls_module
from penstock.query.server_tls import server_tls
from penstock.query.table_read import ALL
from penstock.spark.queries.remote_tables import Servers
from penstock.spark.queries.state_tables import read_source
from penstock.spark.queries.store_locator import StoreSource
from tests.harness.secured import KEY_PASSWORD, Certificates
from tests.unit.client.web.served import Served

COUNTS = [("key", "string"), ("value", "bigint"), ("timestamp", "bigint")]
SSL = "application.server.ssl."
KEYS = [f"k{number:02}" for number in range(30)]
TOKEN = {"Authorization": "Bearer secret"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("strangers"))


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_tls_module, "_LOOK_SECONDS", 0.0)


def settings(certificates: Certificates, **more: Any) -> dict[str, Any]:
    values = {"certificate.location": str(certificates.broker), "ca.location": str(certificates.authority), **more}
    return {SSL + name.replace("_", "."): value for name, value in values.items() if value is not None}


def trusting(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates.authority))


def serial(served: Served, tls: ssl.SSLContext) -> str:
    """The number of the certificate that the server shows now."""
    with (
        socket.create_connection((served.service.host.host, served.service.host.port), 20) as plain,
        tls.wrap_socket(plain, server_hostname="localhost") as connected,
    ):
        shown = connected.getpeercert()
        assert shown is not None
        return str(shown["serialNumber"])


def fill(*servers: Served) -> None:
    """Each key where it belongs, on the instance that has it."""
    for served in servers:
        world = served.world
        for number, key in enumerate(KEYS):
            task = world.locations.task_of_key("counts", key, world.stores.store("counts").key_serde)
            if task in world.loop.owners:
                world.write("counts", task.partition).put(key, ValueAndTimestamp(number, 0))
        world.commit()


def pair(tmp_path: Path, first: dict[str, Any], second: dict[str, Any]) -> tuple[Served, Served]:
    one = Served(tmp_path / "one", "secret", own=[0], config=first)
    other = Served(tmp_path / "other", "secret", own=[1, 2], config=second)
    hosts = {0: one.address, 1: other.address, 2: other.address}
    one.serve(hosts)
    other.serve(hosts)
    fill(one, other)
    return one, other


@pytest.fixture
def served(tmp_path: Path, certificates: Certificates) -> Iterator[Served]:
    served = Served(tmp_path / "state", "secret", config=settings(certificates)).serve()
    fill(served)
    yield served
    served.close()


def test_should_answer_over_tls_and_nothing_else(served: Served, certificates: Certificates) -> None:
    assert served.service.url.startswith("https://localhost:")
    tls = trusting(certificates)
    assert served.get("/api/stores/counts/keys/k07", TOKEN, tls=tls)[1]["value"] == 7
    assert served.get("/", tls=tls)[0] == 200
    assert served.get("/api/app", TOKEN, tls=tls)[0] == 200
    assert served.get("/api/app", tls=tls)[0] == 401
    with pytest.raises((OSError, http.client.HTTPException)):
        served.get("/api/app", TOKEN)
    old = f"openssl s_client -connect {served.address} -tls1_1 </dev/null"
    assert subprocess.run(old, shell=True, capture_output=True).returncode != 0


def test_should_close_connections_that_do_not_go_on_with_tls(
    tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.client.web.connections.HEAD_SECONDS", 0.3)
    served = Served(tmp_path / "state", "secret", config=settings(certificates)).serve()
    with socket.create_connection((served.service.host.host, served.service.host.port), 20) as silent:
        silent.sendall(b"\x16\x03\x01")
        assert silent.recv(10) == b""
    served.close()


def test_should_use_a_new_certificate_for_new_connections(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    folder = certificates.authority.parent

    def put(name: str) -> None:
        for target, kind in ((certificate, "crt"), (key, "key")):
            shutil.copy(folder / f"{name}.{kind}", tmp_path / "new")
            os.replace(tmp_path / "new", target)

    certificates.issue("next", None)
    put("broker")
    located = {"certificate.location": str(certificate), "key.location": str(key)}
    served = Served(tmp_path / "state", "secret", config=settings(certificates, **located)).serve()
    fill(served)
    tls = trusting(certificates)
    first = serial(served, tls)
    assert serial(served, tls) == first

    certificate.write_text("-----BEGIN CERTIFICATE-----\nhalf of it")
    assert serial(served, tls) == serial(served, tls) == first
    key.unlink()
    assert serial(served, tls) == first
    warnings = [record for record in caplog.records if "the old ones stay" in record.getMessage()]
    assert len(warnings) == 2  # once for each thing that was wrong

    put("next")
    assert serial(served, tls) != first
    assert served.get("/api/stores/counts/keys/k07", TOKEN, tls=tls)[1]["value"] == 7
    served.close()


def test_should_take_an_encrypted_key(tmp_path: Path, certificates: Certificates) -> None:
    config = settings(certificates, **{"certificate.location": str(certificates.client), "key.password": KEY_PASSWORD})
    served = Served(tmp_path / "state", "secret", config=config).serve()
    assert served.get("/api/app", TOKEN, tls=trusting(certificates))[0] == 200
    assert KEY_PASSWORD not in repr(served.config)
    served.close()


def test_should_ask_callers_for_a_certificate(tmp_path: Path, certificates: Certificates, strangers: Certificates) -> None:
    one, other = pair(tmp_path, *[settings(certificates, client_auth="required")] * 2)
    with pytest.raises(OSError):
        one.get("/api/app", TOKEN, tls=trusting(certificates))
    wrong, right = trusting(certificates), trusting(certificates)
    wrong.load_cert_chain(strangers.client, password=KEY_PASSWORD)
    with pytest.raises(OSError):
        one.get("/api/app", TOKEN, tls=wrong)
    right.load_cert_chain(certificates.client, password=KEY_PASSWORD)
    for number, key in enumerate(KEYS):  # instances show theirs to each other
        assert one.get(f"/api/stores/counts/keys/{key}", TOKEN, tls=right)[1]["value"] == number
    one.close()
    other.close()


def test_should_ask_other_instances_over_tls(tmp_path: Path, certificates: Certificates) -> None:
    one, other = pair(tmp_path, *[settings(certificates)] * 2)
    tls = trusting(certificates)
    for number, key in enumerate(KEYS):
        assert one.get(f"/api/stores/counts/keys/{key}", TOKEN, tls=tls)[1]["value"] == number
    _, page = other.get("/api/stores/counts/range?limit=100", TOKEN, tls=tls)
    assert [entry["key"] for entry in page["entries"]] == KEYS

    rows = []
    for partition, served in enumerate((one, other, other)):
        application = replace(served.world.spark_threads.application, config=served.config)
        source = StoreSource(TaskId(0, partition), "", server=served.address)
        rows += [row for batch in read_source(application, "counts", source, COUNTS, ALL) for row in batch.to_pylist()]
    assert sorted(row["key"] for row in rows) == KEYS
    reader = Servers.of(
        {
            "application.server": one.address,
            "application.server.token": "secret",
            f"{SSL}ca.location": str(certificates.authority),
        }
    )
    found = [
        row for partition in range(3) for batch in reader.batches("counts", partition, ALL, COUNTS) for row in batch.to_pylist()
    ]
    assert sorted(row["key"] for row in found) == KEYS
    one.close()
    other.close()


@pytest.mark.parametrize("fault", ["another authority", "expired", "another name", "plain text"])
def test_should_not_trust_other_instances_without_a_reason(
    tmp_path: Path, certificates: Certificates, strangers: Certificates, fault: str
) -> None:
    theirs = {
        "another authority": lambda: strangers.broker,
        "expired": lambda: certificates.issue("expired", None, days=-1),
        "another name": lambda: certificates.issue("named", None, names="DNS:elsewhere.example"),
        "plain text": lambda: None,
    }[fault]()
    second = {} if theirs is None else settings(certificates, **{"certificate.location": str(theirs)})
    one, other = pair(tmp_path, settings(certificates), second)
    answers = []
    for key in KEYS:
        answers.append(one.get(f"/api/stores/counts/keys/{key}", TOKEN, tls=trusting(certificates)))
        time.sleep(0.02)
    refused = {status: body["error"] for status, body in answers if status != 200}
    if fault == "plain text":
        assert set(refused) == {503}
    else:
        reasons = {"another authority": "issuer|self-signed", "expired": "expired", "another name": "[Mm]ismatch|not valid for"}
        reason = reasons[fault]
        assert 502 in refused
        assert "is not trusted" in refused[502]
        assert re.search(reason, refused[502]), refused[502]
        application = replace(one.world.spark_threads.application, config=one.config)
        with pytest.raises(StateStoreNotAvailableError, match=f"is not trusted.*({reason})"):
            list(read_source(application, "counts", StoreSource(TaskId(0, 1), "", server=other.address), COUNTS, ALL))
    one.close()
    other.close()


def test_should_say_what_is_wrong_at_the_start(tmp_path: Path, certificates: Certificates) -> None:
    def refused(match: str, config: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match=match):
            Served(tmp_path / "state", "secret", config=config)

    refused(r"no-such\.pem.*No such file", settings(certificates, **{"certificate.location": "no-such.pem"}))
    refused("password", settings(certificates, **{"certificate.location": str(certificates.client)}))
    refused("PEM", settings(certificates, **{"certificate.location": str(Path(__file__))}))
    refused(r"certificate\.location", settings(certificates, **{"certificate.location": None}))
    refused(r"ca\.location", settings(certificates, **{"ca.location": None, "client.auth": "required"}))
    refused(r"TLSv1\.2", settings(certificates, **{"enabled.protocols": "SSLv3"}))
    refused(r"client\.auth", settings(certificates, **{"client.auth": "perhaps"}))
    other_key = certificates.authority.parent / "client.raw"
    refused("key", settings(certificates, **{"key.location": str(other_key)}))


def test_should_speak_plain_text_beyond_this_host_only_where_that_is_asked_for(
    tmp_path: Path, certificates: Certificates
) -> None:
    open_to_all = {"application.server": "192.0.2.1:0"}  # not of this host: it listens on all addresses
    with pytest.raises(ConfigError, match="plain text"):
        Served(tmp_path / "state", "secret", config=open_to_all)
    for config in ({**open_to_all, "application.server.plaintext.allowed": "true"}, {**open_to_all, **settings(certificates)}):
        Served(tmp_path / "state", "secret", config=config).service.close()


def test_should_speak_only_the_versions_that_are_enabled(tmp_path: Path, certificates: Certificates) -> None:
    served = Served(tmp_path / "state", "secret", config=settings(certificates, enabled_protocols="TLSv1.3")).serve()
    tls = trusting(certificates)
    assert served.get("/api/app", TOKEN, tls=tls)[0] == 200
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        served.get("/api/app", TOKEN, tls=tls)
    tls = server_tls(served.config).for_peers()  # type: ignore[union-attr]
    assert tls.minimum_version == ssl.TLSVersion.TLSv1_3
    assert tls.check_hostname
    served.close()
