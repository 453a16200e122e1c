"""Every key of Kafka Streams' configuration: it works, or is documented as not applying with the reason."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from penstock.config.keys import KEYS
from penstock.config.streams_config import StreamsConfig
from penstock.errors import ConfigError

SOURCES = Path(__file__).parents[3] / "src" / "penstock"

# Kafka Streams 4.3, StreamsConfig: names and defaults.
INVENTORY = """
application.id=required bootstrap.servers=required num.standby.replicas=0 state.dir=*
processing.exception.handler.global.enabled=false ensure.explicit.internal.resource.naming=false
acceptable.recovery.lag=10000 cache.max.bytes.buffering=10485760
statestore.cache.max.bytes=10485760 client.id= deserialization.exception.handler=log_and_fail
production.exception.handler=log_and_fail processing.exception.handler=log_and_fail errors.dead.letter.queue.topic.name=null
default.key.serde=null default.value.serde=null default.list.key.serde.inner=null default.list.key.serde.type=null
default.list.value.serde.inner=null default.list.value.serde.type=null default.timestamp.extractor=FailOnInvalidTimestamp
max.task.idle.ms=0 max.warmup.replicas=2 num.stream.threads=* processing.guarantee=at_least_once task.assignor.class=null
replication.factor=-1 security.protocol=PLAINTEXT task.timeout.ms=300000 topology.optimization=none group.protocol=classic
topology.description.push.enabled=true allow.os.group.write.access=false application.server= buffered.records.per.partition=1000
built.in.metrics.version=latest commit.interval.ms=* config.providers= enable.metrics.push=true
enable.transactional.statestores=false statestore.uncommitted.max.bytes=67108864 rack.aware.assignment.strategy=none
rack.aware.assignment.tags= rack.aware.assignment.traffic_cost=null rack.aware.assignment.non_overlap_cost=null
repartition.purge.interval.ms=30000 connections.max.idle.ms=540000 default.dsl.store=rocksDB dsl.store.suppliers.class=rocksdb
dsl.store.format=DEFAULT default.interactive.query.isolation.level=* default.client.supplier=null log.summary.interval.ms=120000
metadata.max.age.ms=300000 metrics.num.samples=2 metric.reporters= metrics.recording.level=INFO metrics.sample.window.ms=30000
poll.ms=100 probing.rebalance.interval.ms=600000 processor.wrapper.class=null receive.buffer.bytes=32768
send.buffer.bytes=131072 reconnect.backoff.ms=50 reconnect.backoff.max.ms=1000 retry.backoff.ms=100 request.timeout.ms=40000
rocksdb.config.setter=null state.cleanup.delay.ms=600000 state.cleanup.dir.max.age.ms=-1 upgrade.from=null
windowstore.changelog.additional.retention.ms=86400000 window.size.ms=null windowed.inner.class.serde=null
default.deserialization.exception.handler=log_and_fail default.production.exception.handler=log_and_fail
metadata.recovery.strategy=rebootstrap metadata.recovery.rebootstrap.trigger.ms=300000
"""

# Read by a name that is put together (`default.list.{which}.serde.inner`), or checked when it is parsed: one value is allowed.
BY_OTHER_MEANS = {"default.list.key.serde.inner", "default.list.value.serde.inner", "built.in.metrics.version"}


def read_somewhere() -> set[str]:
    """The keys that code outside of their definition names."""
    text = "".join(path.read_text() for path in SOURCES.rglob("*.py") if path != SOURCES / "config" / "keys.py")
    return set(re.findall(r'"([a-z0-9_.]+)"', text))


@pytest.mark.parametrize("entry", INVENTORY.split())
def test_should_know_every_key_with_its_default(entry: str) -> None:
    name, _, default = entry.partition("=")
    key = KEYS[name]
    shown = "true" if key.default is True else "false" if key.default is False else str(key.default)
    if key.default in (None, ()):
        shown = "null" if key.default is None else ""
    if default == "*":
        assert "default" in key.doc or key.default != "", f"{name} differs from Kafka Streams: its text has to say so"
    elif default != "required":
        assert shown == default


def test_should_use_every_key_or_say_why_it_does_not_apply() -> None:
    used = read_somewhere() | BY_OTHER_MEANS
    unused = {name for name, key in KEYS.items() if key.without_effect is None and name not in used}
    assert not unused, f"neither read anywhere nor documented as without effect: {sorted(unused)}"


def test_should_give_a_reason_in_the_documentation() -> None:
    page = (SOURCES.parents[1] / "docs" / "configuration.md").read_text()
    for name, key in KEYS.items():
        assert f"| `{name}` |" in page
        if key.without_effect is not None:
            assert f"*Does not apply here:* {key.without_effect}." in page


def test_should_accept_what_does_not_apply_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = StreamsConfig({"application.id": "a", "bootstrap.servers": "b:1", "buffered.records.per.partition": "5"})
    assert config["buffered.records.per.partition"] == 5
    assert "buffered.records.per.partition has no effect here: batch.max.records bounds" in caplog.text


def test_should_take_values_from_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_PASSWORD", "from-env")
    (tmp_path / "app.properties").write_text("# secrets\nuser = me\nkey.password=from=file\n")
    (tmp_path / "token").write_text("from-folder")
    providers = {
        "config.providers": "env,file,dir",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.dir.class": "DirectoryConfigProvider",
    }
    base = {"application.id": "a", "bootstrap.servers": "b:1", **providers}
    config = StreamsConfig(
        {
            **base,
            "sasl.password": "${env:APP_PASSWORD}",
            "ssl.key.password": f"${{file:{tmp_path}/app.properties:key.password}}",
            "sasl.username": f"x-${{file:{tmp_path}/app.properties:user}}",
            "application.server.token": f"${{dir:{tmp_path}:token}}",
            "consumer.client.rack": "${other:stays}",
        }
    )
    assert config["sasl.password"] == "from-env"
    assert config["ssl.key.password"] == "from=file"
    assert config["sasl.username"] == "x-me"
    assert config["application.server.token"] == "from-folder"
    assert config["consumer.client.rack"] == "${other:stays}"
    for secret in ("from-env", "from=file", "from-folder"):
        assert secret not in repr(config)
    with pytest.raises(ConfigError, match=r"sasl\.password.*NO_SUCH"):
        StreamsConfig({**base, "sasl.password": "${env:NO_SUCH}"})
    with pytest.raises(ConfigError, match=r"config\.providers\.vault\.class.*EnvVarConfigProvider"):
        StreamsConfig({**base, "config.providers": "vault"})
