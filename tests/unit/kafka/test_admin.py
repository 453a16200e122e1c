import weakref
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException

from penstock import BrokerAccessError, BrokerError, TopologyError
from penstock.ids import TopicPartition
from penstock.kafka import admin
from penstock.kafka.admin import Admin


def test_should_take_a_request_that_nobody_answers_for_one_that_timed_out() -> None:
    unanswered: Future[Any] = Future()
    with pytest.raises(KafkaException) as caught:
        admin._result(unanswered, 0.0)
    assert caught.value.args[0].code() == KafkaError._TIMED_OUT


def test_should_say_that_brokers_are_away_while_it_asks_for_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_TIMEOUT", 0.2)
    monkeypatch.setattr(admin, "_STEP", 0.1)
    client = Admin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1"):
        client.log_ends([TopicPartition("topic", 0)], True)


def test_should_let_its_connections_go_and_open_them_anew_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_TIMEOUT", 0.2)
    monkeypatch.setattr(admin, "_STEP", 0.1)
    client = Admin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    opened = weakref.ref(client._client)
    client.let_go()
    assert opened() is None, "nobody has it any more, without a look for garbage"
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1"):
        client.partition_counts()


def test_should_say_soon_that_no_broker_answers_and_go_on_trying(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(admin, "_TIMEOUT", 0.3)
    monkeypatch.setattr(admin, "_STEP", 0.05)
    monkeypatch.setattr(admin, "_SILENT_SECONDS", 0.0)
    client = Admin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    with pytest.raises(BrokerError):
        client.partition_counts()
    (said,) = [record.getMessage() for record in caplog.records if record.name == admin.__name__]
    assert "127.0.0.1:1 do not answer" in said
    assert "Trying for" in said


def test_should_give_up_after_its_own_patience() -> None:
    client = Admin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, patience=0.05)
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1 do not answer"):
        client.partition_counts()


NO_TOKEN = KafkaError(KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token: HTTP error 503")


class Client:
    """An admin client that tells of an error, where it has one, and otherwise answers."""

    def __init__(self, settings: dict[str, Any], error: KafkaError | None) -> None:
        self._error, self._tell = error, settings["error_cb"]

    def list_topics(self, timeout: float) -> Any:
        if self._error is not None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics={})

    def poll(self, timeout: float) -> None:
        if self._error is not None:
            self._tell(self._error)


def opened(monkeypatch: pytest.MonkeyPatch, *errors: KafkaError | None) -> Admin:
    """An Admin whose clients, one after the other, have these errors."""
    left = iter(errors)
    monkeypatch.setattr(admin, "open_client", lambda what, kind, settings: Client(settings, next(left)))
    return Admin({"bootstrap.servers": "127.0.0.1:1"})


@pytest.mark.parametrize("error", [NO_TOKEN, KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error: expired")])
def test_should_go_on_where_it_was_refused_only_once(error: KafkaError, monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(monkeypatch, error, None).partition_counts() == {}


def test_should_ask_with_a_new_client_where_one_reaches_nobody_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_ANEW_SECONDS", 0.0)
    lost = KafkaError(KafkaError._ALL_BROKERS_DOWN)
    assert opened(monkeypatch, lost, None).partition_counts() == {}


def test_should_say_that_librdkafka_gets_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerAccessError, match="Failed to acquire SASL OAUTHBEARER token"):
        opened(monkeypatch, NO_TOKEN, NO_TOKEN).partition_counts()


class Cluster:
    """Plays librdkafka's client: partitions with an offset, a leader, or neither."""

    def __init__(self, ends: dict[str, int | KafkaError], leaders: dict[str, int]) -> None:
        self.ends, self.leaders = ends, leaders
        self.asked: list[tuple[set[str], IsolationLevel]] = []

    def list_offsets(self, asked: Any, isolation_level: Any, request_timeout: float) -> Any:
        self.asked.append(({f"{p.topic}-{p.partition}" for p in asked}, isolation_level))
        found = {}
        for partition in asked:
            end, future = self.ends[f"{partition.topic}-{partition.partition}"], Future[Any]()
            if isinstance(end, KafkaError):
                future.set_exception(KafkaException(end))
            else:
                future.set_result(SimpleNamespace(offset=end))
            found[partition] = future
        return found

    def list_topics(self, timeout: float) -> Any:
        topics: dict[str, Any] = {}
        for name, leader in self.leaders.items():
            topic, _, number = name.rpartition("-")
            known = topics.setdefault(topic, SimpleNamespace(error=None, partitions={}))
            known.partitions[int(number)] = SimpleNamespace(leader=leader)
        return SimpleNamespace(topics=topics, brokers={1: "one"})


A, B = TopicPartition("topic", 0), TopicPartition("topic", 1)


def admin_of(cluster: Cluster) -> Admin:
    client = Admin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    client._open = cluster  # type: ignore[assignment]
    client._opened = lambda: cluster  # type: ignore[method-assign,assignment,return-value]
    return client


def test_should_leave_out_a_partition_without_leader_and_not_ask_for_it_again_before_it_has_one() -> None:
    cluster = Cluster({"topic-0": 7, "topic-1": OFFSET_INVALID}, {"topic-0": 1, "topic-1": 2})
    client = admin_of(cluster)
    assert client.reachable_ends([A, B], True) == {A: 7}
    assert client.reachable_ends([A, B], True) == {A: 7}
    assert cluster.asked[-1] == ({"topic-0"}, IsolationLevel.READ_COMMITTED)
    cluster.ends["topic-1"], cluster.leaders["topic-1"] = 9, 1
    assert client.reachable_ends([A, B], False) == {A: 7, B: 9}
    assert cluster.asked[-1] == ({"topic-0", "topic-1"}, IsolationLevel.READ_UNCOMMITTED)


class Clock:
    """Goes on only when somebody waits for it."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Unanswered(Future[Any]):
    """An answer that never comes."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def result(self, timeout: float | None = None) -> Any:
        assert timeout is not None
        self._clock.sleep(timeout)
        raise FutureTimeout


def test_should_wait_for_all_answers_together_and_then_ask_with_another_client(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(admin, "time", clock)
    answering = Cluster({f"topic-{number}": 7 for number in range(9)}, {})
    client = admin_of(answering)
    dead = SimpleNamespace(list_offsets=lambda asked, **_: {partition: Unanswered(clock) for partition in asked})
    dead.list_topics = lambda timeout: SimpleNamespace(
        topics={"topic": SimpleNamespace(error=None, partitions=range(9))}, brokers={}
    )
    client._open = dead  # type: ignore[assignment]
    partitions = [TopicPartition("topic", number) for number in range(9)]
    assert client.log_ends(partitions, True) == dict.fromkeys(partitions, 7)
    assert clock.now < 15  # not nine times as long


def test_should_ask_again_where_one_partition_without_leader_has_kept_all_from_being_told() -> None:
    timed_out = KafkaError(KafkaError._TIMED_OUT, "no leader")
    cluster = Cluster({"topic-0": timed_out, "topic-1": timed_out}, {"topic-0": 1, "topic-1": -1})
    client = admin_of(cluster)
    answered = cluster.list_offsets

    def list_offsets(asked: Any, **settings: Any) -> Any:
        cluster.ends["topic-0"] = timed_out if len(asked) > 1 else 7
        return answered(asked, **settings)

    cluster.list_offsets = list_offsets  # type: ignore[method-assign]
    assert client.reachable_ends([A, B], True) == {A: 7}


def test_should_say_that_a_topic_is_gone_unless_only_known_ones_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_UNKNOWN_SECONDS", 0.0)
    unknown = KafkaError(KafkaError._UNKNOWN_PARTITION, "unknown")
    client = admin_of(Cluster({"topic-0": 7, "topic-1": unknown}, {"topic-0": 1}))
    assert client.reachable_ends([A, B], True, known_only=True) == {A: 7}
    with pytest.raises(TopologyError, match="topic-1 could not be read"):
        client.reachable_ends([A, B], True)


def test_should_believe_that_a_topic_is_gone_only_when_it_has_been_told_so_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_UNKNOWN_SECONDS", 3.0)
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(admin, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=lambda seconds: None))
    cluster = Cluster({"topic-0": KafkaError(KafkaError._TIMED_OUT, "away")}, {"topic-0": 1})
    client, answered = admin_of(cluster), cluster.list_offsets

    def list_offsets(asked: Any, **settings: Any) -> Any:
        found = answered(asked, **settings)
        clock.now += 20.0
        cluster.ends["topic-0"] = 7  # it is back, and knows no topic in the first moment
        return found

    cluster.list_offsets = list_offsets  # type: ignore[method-assign]
    monkeypatch.setattr(client, "_missing", lambda asked: [str(p) for p in asked])
    assert client.log_ends([A], False) == {A: 7}


def creating(monkeypatch: pytest.MonkeyPatch, *answers: int | None) -> tuple[Admin, list[str]]:
    """An Admin whose brokers answer the wish for a topic with these errors, one after the other; None creates it."""
    client, left, asked = admin_of(Cluster({}, {})), iter(answers), list[str]()

    def create_topics(topics: Any, **_: Any) -> Any:
        asked.append(topics[0].topic)
        code, future = next(left), Future[None]()
        if code is None:
            future.set_result(None)
        else:
            future.set_exception(KafkaException(KafkaError(code)))
        return {topics[0].topic: future}

    client._client.create_topics = create_topics  # type: ignore[method-assign]
    monkeypatch.setattr(client, "partition_counts", lambda topics=None: {"internal": 4})
    return client, asked


def test_should_create_a_topic_although_the_brokers_go_away_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    client, asked = creating(monkeypatch, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError.NOT_CONTROLLER, None)
    client.create_topic("internal", 4, {})
    assert len(asked) == 4


def test_should_take_a_topic_as_created_where_only_the_answer_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = creating(monkeypatch, KafkaError._TIMED_OUT, KafkaError.TOPIC_ALREADY_EXISTS)
    client.create_topic("internal", 4, {})


def test_should_not_ask_again_for_a_topic_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    client, asked = creating(monkeypatch, KafkaError.POLICY_VIOLATION)
    with pytest.raises(BrokerError, match="creating the topic internal failed"):
        client.create_topic("internal", 4, {})
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("committed_only", "level"), [(True, IsolationLevel.READ_COMMITTED), (False, IsolationLevel.READ_UNCOMMITTED)]
)
def test_should_look_for_a_time_and_the_end_behind_it_with_the_consumers_isolation_level(
    committed_only: bool, level: IsolationLevel
) -> None:
    cluster = Cluster({"topic-0": 7, "topic-1": -1}, {"topic-0": 1, "topic-1": 1})
    client, answered = admin_of(cluster), cluster.list_offsets

    def list_offsets(asked: Any, **settings: Any) -> Any:
        found = answered(asked, **settings)
        cluster.ends["topic-1"] = 9  # no record is that recent, so the end is asked for next
        return found

    cluster.list_offsets = list_offsets  # type: ignore[method-assign]
    assert client.offsets_at([A, B], 1_000, committed_only) == {A: 7, B: 9}
    assert cluster.asked == [({"topic-0", "topic-1"}, level), ({"topic-1"}, level)]
