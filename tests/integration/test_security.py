"""Brokers with SASL/PLAIN, with tokens and with TLS: every client gets in, and no secret gets out."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from penstock import (
    BrokerAccessError,
    BrokerError,
    Consumed,
    KafkaStreams,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Topology,
)
from penstock.kafka.clients import log_reader_config
from penstock.kafka.fetch import FetchRange
from penstock.kafka.log_reader import LogReader
from penstock.kafka.log_transport import log_transport
from tests.conftest import wait_until_running
from tests.harness.issuer import Issuer, token_from, token_in_one_process
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.secured import (
    ADMIN_PASSWORD,
    APP_PASSWORD,
    KEY_PASSWORD,
    Certificates,
    oauth_broker,
    oauth_options,
    sasl_broker,
    tls_broker,
)
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, keyed, texts
from tests.integration.topologies import BY_TEXT, TEXT

ROOT = Path(__file__).parents[2]
SHORT_LIFE = 12
TOKEN = "eyJhbGciOi"  # how one begins: {"alg":
string, long = Serdes.string(), Serdes.long()
Settings = Mapping[str, Any]

SASL_ADMIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "admin",
    "sasl.password": ADMIN_PASSWORD,
}
SASL_APP = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="app" password="{APP_PASSWORD}";',
}


def reachable(bootstrap_servers: str, security: Settings) -> Kafka:
    kafka = Kafka(bootstrap_servers, security)
    wait_until(lambda: kafka.admin.list_topics(timeout=LIMIT).brokers, "the secured broker answers")
    return kafka


@pytest.fixture(scope="module")
def with_sasl() -> Iterator[tuple[Kafka, Settings]]:
    with sasl_broker() as broker:
        yield reachable(broker.bootstrap_servers, SASL_ADMIN), SASL_APP


@pytest.fixture(scope="module")
def with_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kafka, Settings]]:
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made with the openssl command")
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    by_parts = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(made.authority),
        "ssl.certificate.location": str(made.client_certificate),
        "ssl.key.location": str(made.client_key),
        "ssl.key.password": KEY_PASSWORD,
    }
    as_in_java = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.authority),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.client),
        "ssl.key.password": KEY_PASSWORD,
    }
    with tls_broker(made) as broker:
        yield reachable(broker.bootstrap_servers, by_parts), as_in_java


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    if shutil.which("openssl") is None:
        pytest.skip("tokens are signed with the openssl command")
    clients = {"app": APP_PASSWORD, "brief": APP_PASSWORD}
    with Issuer(tmp_path_factory.mktemp("issuer"), clients, {"brief": SHORT_LIFE}) as found:
        yield found


@pytest.fixture(scope="module")
def with_oauth(issuer: Issuer) -> Iterator[tuple[Kafka, Settings]]:
    as_in_java = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        f'clientId="app" clientSecret="{APP_PASSWORD}" scope="kafka";',
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_OPTS", oauth_options(issuer.keys_url))
        broker = oauth_broker(issuer.keys_url).start()
    with broker:
        yield reachable(broker.bootstrap_servers, SASL_ADMIN), as_in_java


@pytest.fixture
def start(spark: Any, tmp_path: Path) -> Iterator[Callable[..., KafkaStreams]]:
    started: list[KafkaStreams] = []

    def run(topology: Topology, kafka: Kafka, security: Settings, **config: Any) -> KafkaStreams:
        base = {"bootstrap.servers": kafka.bootstrap_servers, "state.dir": str(tmp_path / "state"), "num.stream.threads": 1}
        streams = KafkaStreams(topology, {**base, **security, "commit.interval.ms": 20, **config}, spark=spark)
        started.append(streams)
        streams.start()
        return streams

    yield run
    for streams in started:
        streams.close(60_000)


def every_client(source: str, table: str, sink: str) -> Topology:
    """A global table, a join with it, and a count behind a repartition: all clients have something to do."""
    builder = StreamsBuilder()
    names = builder.global_table(table, Consumed(string, string), Materialized("names", string, string))
    joined = builder.stream(source, TEXT).join(names, lambda _, value: value, lambda _, name: name)
    grouped = joined.group_by(lambda _, name: name, BY_TEXT)
    grouped.count(Materialized("counts", string, long)).to_stream().to(sink, Produced(string, long))
    return builder.build()


@pytest.mark.parametrize(
    ("broker", "guarantee"),
    [
        ("with_sasl", "exactly_once_v2"),
        pytest.param("with_tls", "at_least_once", marks=pytest.mark.slow),
        pytest.param("with_oauth", "exactly_once_v2", marks=pytest.mark.slow),
        pytest.param("with_oauth", "at_least_once", marks=pytest.mark.slow),
        pytest.param("with_sasl", "at_least_once", marks=pytest.mark.slow),
        pytest.param("with_tls", "exactly_once_v2", marks=pytest.mark.slow),
    ],
)
def test_should_let_every_client_in(
    broker: str, guarantee: str, request: Any, start: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kafka, security = request.getfixturevalue(broker)
    caplog.set_level(logging.DEBUG)
    source, table, sink = names = [unique(name) for name in ("in", "names", "out")]
    kafka.create(*names)
    kafka.feed(table, texts(("1", "anna"), ("2", "bert")))
    kafka.feed(source, texts(("a", "1"), ("b", "2"), ("c", "1")))
    application = unique("secured")
    config = {"application.id": application, "processing.guarantee": guarantee, "statestore.cache.max.bytes": 0}
    first = start(every_client(source, table, sink), kafka, security, **config)
    assert counts(kafka, sink, 3) == {"anna": [1, 2], "bert": [1]}
    assert first.close(60_000)
    first.clean_up()  # the next start restores everything with the restore consumer
    kafka.feed(source, texts(("d", "2")))
    second = start(every_client(source, table, sink), kafka, security, **config)
    assert counts(kafka, sink, 4) == {"anna": [1, 2], "bert": [1, 2]}

    settings = tmp_path / "app.toml"
    settings.write_text("".join(f"{key} = {str(value)!r}\n" for key, value in {**security, **config}.items()))
    both = ["--config", str(settings), "-c", f"bootstrap.servers={kafka.bootstrap_servers}", "-c", f"state.dir={tmp_path}"]
    shown = penstock("status", *both)
    assert f"{application}: running on 1 instance" in shown.stdout, shown
    refused = penstock("reset", *both)
    assert (refused.returncode, "active member" in refused.stderr) == (1, True)
    assert second.close(60_000)
    done = penstock("reset", *both)
    assert done.returncode == 0, done.stderr

    told = caplog.text + "".join(run.stdout + run.stderr for run in (shown, refused, done)) + repr(second._config)
    for secret in (APP_PASSWORD, KEY_PASSWORD, TOKEN):
        assert secret not in told


@pytest.mark.parametrize("secured", ["with_sasl", "with_tls", "with_oauth"])
def test_should_read_long_changelogs_as_they_lie_in_the_log(secured: str, request: Any) -> None:
    """What restores read by connections of their own, where there is enough to read."""
    kafka, security = request.getfixturevalue(secured)
    topic = unique("changelog")
    kafka.create(topic, partitions=1)
    kafka.feed(topic, texts(*((str(number), "value") for number in range(3_000))))
    known = {"application.id": unique("restores"), "bootstrap.servers": kafka.bootstrap_servers, **security}
    settings = log_reader_config(StreamsConfig(known), "restores")
    reader = LogReader(log_transport(settings, leader_of=lambda _: pytest.fail("in plain text"), reads_committed=True), True)
    try:
        for start, end in ((0, 1_000), (1_000, 3_000)):
            found, _ = reader.read(FetchRange(topic, 0, start, end), 3_000)
            assert found.keys == [b"%d" % number for number in range(start, end)]
    finally:
        reader.close()


def test_should_log_in_with_scram(with_sasl: tuple[Kafka, Settings], start: Any) -> None:
    kafka, _ = with_sasl
    source, table, sink = names = [unique(name) for name in ("in", "names", "out")]
    kafka.create(*names)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    kafka.admin.alter_user_scram_credentials([UserScramCredentialUpsertion("scrambled", info, b"scr-s3cret")])[
        "scrambled"
    ].result(LIMIT)
    security = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "scrambled",
        "sasl.password": "scr-s3cret",
    }
    kafka.feed(table, texts(("1", "anna")))
    kafka.feed(source, texts(("a", "1")))
    start(every_client(source, table, sink), kafka, security, **{"application.id": unique("scram")})
    assert counts(kafka, sink, 1) == {"anna": [1]}


@pytest.mark.slow
def test_should_get_new_tokens_before_the_old_ones_expire(
    with_oauth: tuple[Kafka, Settings], issuer: Issuer, start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    kafka, _ = with_oauth
    caplog.set_level(logging.DEBUG)
    source, table, sink = names = [unique(name) for name in ("in", "names", "out")]
    kafka.create(*names)
    security = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": partial(token_from, issuer.token_url, "brief", APP_PASSWORD),
    }
    config = {"application.id": unique("brief"), "processing.guarantee": "exactly_once_v2", "statestore.cache.max.bytes": 0}
    kafka.feed(table, texts(("1", "anna")))
    kafka.feed(source, texts(("a", "1")))
    streams = start(every_client(source, table, sink), kafka, security, **config)
    assert counts(kafka, sink, 1) == {"anna": [1]}
    wait_until_running(streams)
    before = issuer.issued["brief"]
    time.sleep(1.25 * SHORT_LIFE)  # nothing to do: every client rests while its token, and its session, run out
    assert issuer.issued["brief"] > before
    kafka.feed(source, texts(("a", "1")))
    assert counts(kafka, sink, 2) == {"anna": [1, 2]}
    assert streams.state.name == "RUNNING"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING and "penstock" in record.name]
    assert TOKEN not in caplog.text


def test_should_name_the_provider_that_gives_a_thread_no_token(
    with_oauth: tuple[Kafka, Settings], issuer: Issuer, start: Any
) -> None:
    kafka, _ = with_oauth
    source, table, sink = names = [unique(name) for name in ("in", "names", "out")]
    kafka.create(*names)
    security = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": partial(token_in_one_process, os.getpid(), issuer.token_url, "app", APP_PASSWORD),
    }
    streams = start(every_client(source, table, sink), kafka, security, **{"application.id": unique("driver-only")})
    wait_until(lambda: streams.state.name == "ERROR", "the application notices")
    assert isinstance(streams.failure, BrokerAccessError), streams.failure
    assert "token provider" in str(streams.failure)
    assert "no credentials here" in str(streams.failure)
    assert APP_PASSWORD not in f"{streams.failure!r} {streams.failure.__cause__!r}"


@pytest.mark.parametrize("secured", ["with_sasl", "with_oauth"])
def test_should_keep_secrets_out_of_spark(secured: str, request: Any, start: Any, spark: Any) -> None:
    kafka, security = request.getfixturevalue(secured)
    source, table, sink = names = [unique(name) for name in ("in", "names", "out")]
    kafka.create(*names)
    kafka.feed(table, texts(("1", "anna")))
    kafka.feed(source, texts(("a", "1")))
    start(every_client(source, table, sink), kafka, security, **{"application.id": unique("quiet")})
    kafka.read(sink, 1)
    context = spark.sparkContext
    assert APP_PASSWORD not in str(context.getConf().getAll())
    store = context._jsc.sc().statusStore()
    jobs = store.jobsList(context._jvm.java.util.ArrayList())
    described = " ".join(f"{jobs.apply(i).name()} {jobs.apply(i).description()}" for i in range(jobs.size()))
    assert APP_PASSWORD not in described


@pytest.mark.parametrize("secured", ["with_sasl", "with_tls", "with_oauth"])
def test_should_say_at_once_that_it_is_not_let_in(secured: str, request: Any, start: Any) -> None:
    kafka, security = request.getfixturevalue(secured)
    wrong = {**security, "sasl.jaas.config": security.get("sasl.jaas.config", "").replace(APP_PASSWORD, "wrong-s3cret")}
    if secured == "with_tls":
        wrong = {"security.protocol": "SSL", "ssl.ca.location": security["ssl.truststore.location"]}  # no certificate of its own
    asked = security.get("sasl.oauthbearer.token.endpoint.url", kafka.bootstrap_servers)
    with pytest.raises(BrokerAccessError, match=asked) as caught:
        start(every_client("a", "b", "c"), kafka, wrong, **{"application.id": unique("wrong")})
    text = f"{caught.value!r} {caught.value.__cause__!r}"
    assert "wrong-s3cret" not in text
    assert "credentials" in text


def test_should_fail_at_once_where_it_has_no_right_to_write(with_sasl: tuple[Kafka, Settings], start: Any) -> None:
    kafka, security = with_sasl
    source, table, sink = names = [unique(name) for name in ("in", "names", "out")]
    kafka.create(*names)
    deny(kafka, sink, AclOperation.WRITE)
    kafka.feed(table, texts(("1", "anna")))
    kafka.feed(source, texts(("a", "1")))
    for guarantee in ("exactly_once_v2", "at_least_once"):
        config = {"application.id": unique("rights"), "processing.guarantee": guarantee}
        streams = start(every_client(source, table, sink), kafka, security, **config)
        wait_until(lambda s=streams: s.state.name == "ERROR", "the application notices")
        assert isinstance(streams.failure, BrokerAccessError), streams.failure
        assert sink in str(streams.failure)


def test_should_fail_at_once_where_it_has_no_right_to_read(with_sasl: tuple[Kafka, Settings], start: Any) -> None:
    kafka, security = with_sasl
    source, table, sink = names = [unique(name) for name in ("in", "names", "out")]
    kafka.create(*names)
    deny(kafka, source, AclOperation.READ)
    kafka.feed(source, keyed("a"))
    streams = start(every_client(source, table, sink), kafka, security, **{"application.id": unique("rights")})
    wait_until(lambda: streams.state.name == "ERROR", "the application notices")
    assert isinstance(streams.failure, BrokerAccessError), streams.failure
    assert source in str(streams.failure)


def test_should_say_that_it_may_not_join_its_group(with_sasl: tuple[Kafka, Settings], start: Any) -> None:
    kafka, security = with_sasl
    source, table, sink = names = [unique(name) for name in ("in", "names", "out")]
    kafka.create(*names)
    application = unique("no-group")
    deny(kafka, application, AclOperation.READ, ResourceType.GROUP)
    streams = start(every_client(source, table, sink), kafka, security, **{"application.id": application})
    wait_until(lambda: streams.state.name == "ERROR", "the application notices")
    assert isinstance(streams.failure, BrokerError)
    assert "group" in str(streams.failure).lower()


def test_should_take_its_security_by_prefix(with_tls: Any, start: Any) -> None:
    kafka, security = with_tls
    source, table, sink = names = [unique(name) for name in ("in", "names", "out")]
    kafka.create(*names)
    by_prefix = {f"{p}{k}": v for p in ("consumer.", "producer.", "admin.") for k, v in security.items()}
    streams = start(every_client(source, table, sink), kafka, by_prefix, **{"application.id": unique("prefixed")})
    wait_until_running(streams)
    kafka.feed(table, texts(("1", "anna")))
    time.sleep(0.5)
    kafka.feed(source, texts(("a", "1")))
    assert counts(kafka, sink, 1) == {"anna": [1]}


def test_should_pickle_with_its_secrets_and_print_without(with_sasl: tuple[Kafka, Settings]) -> None:
    config = StreamsConfig({"application.id": "a", "bootstrap.servers": "b:1", **with_sasl[1]})
    again = pickle.loads(pickle.dumps(config))  # threads need them
    assert APP_PASSWORD in again["sasl.jaas.config"]
    assert APP_PASSWORD not in f"{again} {again!r}"


def deny(kafka: Kafka, name: str, operation: AclOperation, kind: ResourceType = ResourceType.TOPIC) -> None:
    """Take one right on a topic or a group from the application; it keeps the right to look."""

    def acl(operation: AclOperation, permission: AclPermissionType) -> AclBinding:
        return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:app", "*", operation, permission)

    bindings = [acl(operation, AclPermissionType.DENY), acl(AclOperation.DESCRIBE, AclPermissionType.ALLOW)]
    for future in kafka.admin.create_acls(bindings).values():
        future.result(LIMIT)


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT
    )
