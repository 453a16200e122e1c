"""Tokens: checked, kept for most of their life, asked for again before they expire, and never shown."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError

import penstock.kafka.tokens as tokens_module
from penstock import BrokerAccessError, BrokerError
from penstock.kafka.member_tokens import MemberTokens
from penstock.kafka.tokens import Token, TokenSource, expiry_of, token_of
from tests.harness.waiting import LIMIT


def jwt(**claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.signature"


class Clock:
    """The time of day, as the tests say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        monkeypatch.setattr(time, "time", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Scripted:
    """A provider that does one thing after another, and the last one for ever."""

    def __init__(self, *steps: Any) -> None:
        self._steps: Iterator[Any] = iter(steps)
        self._last: Any = None
        self.asked = 0

    def __call__(self) -> Any:
        self.asked += 1
        self._last = next(self._steps, self._last)
        if isinstance(self._last, Exception):
            raise self._last
        return self._last


@pytest.mark.parametrize(
    ("given", "token"),
    [
        (("a.b-c", 1_000_060), Token("a.b-c", 1_000_060.0)),
        (["a", 1_000_060.5], Token("a", 1_000_060.5)),
        (("a", 1_000_060, "anna"), Token("a", 1_000_060.0, "anna")),
        (("a", 1_000_060, None, None), Token("a", 1_000_060.0)),
        (("a", 1_000_060, "anna", {"logicalCluster": "lkc-1"}), Token("a", 1_000_060.0, "anna", {"logicalCluster": "lkc-1"})),
        (jwt(exp=1_000_060), Token(jwt(exp=1_000_060), 1_000_060.0)),
    ],
)
def test_should_take_what_providers_return(given: Any, token: Token, clock: Clock) -> None:
    assert token_of(given) == token


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "got nothing"),
        (17, "got a value of type int"),
        (("s3cret",), "got a tuple of 1"),
        ("s3cret", "not a JWT"),
        ("e30.!.s3cret", "not a readable JWT"),
        (jwt(sub="s3cret"), "without an expiry"),
        ((b"s3cret", 1_000_060), "visible ASCII"),
        (("s3cret two", 1_000_060), "visible ASCII"),
        (("s3cret\x01", 1_000_060), "visible ASCII"),
        (("", 1_000_060), "visible ASCII"),
        (("s3cret", "soon"), "seconds since the epoch, got a value of type str"),
        (("s3cret", float("nan")), "seconds since the epoch"),
        (("s3cret", True), "seconds since the epoch"),
        (("s3cret", 1_000_060_000_000_000), "looks like milliseconds"),
        (("s3cret", 1_000_000), "it expired at 1970-01-12"),
        (("s3cret", 1_000_060, 5), "principal must be text"),
        (("s3cret", 1_000_060, "", ["a"]), "mapping of names"),
        (("s3cret", 1_000_060, "", {"a-b": "c"}), "must have letters only"),
        (("s3cret", 1_000_060, "", {"auth": "c"}), "not be auth"),
        (("s3cret", 1_000_060, "", {"a": "\x01"}), "ASCII text"),
    ],
)
def test_should_say_what_is_wrong_with_a_token_and_not_show_it(given: Any, message: str, clock: Clock) -> None:
    with pytest.raises(BrokerAccessError, match=f"the token provider shop.tokens returned an invalid token.*{message}") as e:
        TokenSource("the token provider shop.tokens", lambda: given).current()
    assert "s3cret" not in f"{e.value!r} {e.value.__cause__!r}"


def test_should_not_show_a_token() -> None:
    assert "s3cret" not in repr(Token("s3cret", 1.0))


def test_should_keep_a_token_for_most_of_its_life(clock: Clock) -> None:
    provider = Scripted(("one", clock.now + 100), ("two", clock.now + 200))
    source = TokenSource("it", provider)
    assert [source.current().value for _ in range(3)] == ["one"] * 3
    clock.now += 79
    assert source("librdkafka's configuration") == ("one", 1_000_100.0, "", {})
    clock.now += 2
    assert source("librdkafka's configuration") == ("two", 1_000_200.0, "", {})
    assert provider.asked == 2


def test_should_go_on_with_a_token_that_is_good_while_there_is_no_other(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    provider = Scripted(("one", clock.now + 100), RuntimeError("the vault is sealed"))
    source = TokenSource("the token provider shop.tokens", provider)
    source.current()
    clock.now += 90
    assert source.current().value == "one"
    assert "shop.tokens failed: RuntimeError: the vault is sealed. The last token is valid for another 10 s" in caplog.text
    clock.now += 9.5
    with pytest.raises(BrokerAccessError, match="RuntimeError: the vault is sealed") as caught:
        source.current()
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_should_try_again_what_may_pass() -> None:
    provider = Scripted(ConnectionRefusedError("away"), TimeoutError(), ("one", time.time() + 100))
    assert TokenSource("it", provider).current(30.0).value == "one"
    assert provider.asked == 3
    impatient = TokenSource("the token provider it", Scripted(ConnectionRefusedError("away")))
    with pytest.raises(
        BrokerError, match="Getting a token from the token provider it failed: ConnectionRefusedError: away"
    ) as caught:
        impatient.current()
    assert not isinstance(caught.value, BrokerAccessError)


def test_should_not_try_again_what_will_not_pass() -> None:
    provider = Scripted(KeyError("AWS_REGION"))
    with pytest.raises(BrokerAccessError, match="AWS_REGION"):
        TokenSource("it", provider).current(30.0)
    assert provider.asked == 1


def test_should_not_hold_up_heartbeats_while_a_token_is_good(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[PlannedByHand] = []

    class PlannedByHand(threading.Thread):
        """A timer whose time has come when the test says so."""

        def __init__(self, seconds: float, function: Callable[[], None]) -> None:
            super().__init__(target=function)
            self.seconds, self.has_begun = seconds, False
            planned.append(self)

        def start(self) -> None:
            self.has_begun = True

        def is_alive(self) -> bool:
            return self.has_begun

        def fire(self) -> None:
            super().start()

    monkeypatch.setattr(threading, "Timer", PlannedByHand)
    asked_again, let_go = threading.Event(), threading.Event()

    def provider() -> tuple[str, float]:
        if not planned:
            return "one", clock.now + 100
        asked_again.set()
        let_go.wait(LIMIT)
        return "two", clock.now + 100

    tokens = MemberTokens(TokenSource("it", provider))
    assert [tokens.token(), tokens.token()] == ["one", "one"]
    assert [timer.seconds for timer in planned] == [80.0]
    clock.now += 90
    planned[0].fire()
    assert asked_again.wait(LIMIT)
    assert tokens.token() == "one"  # the provider takes its time
    let_go.set()
    threading.Thread.join(planned[0])
    assert tokens.token() == "two"


def test_should_not_wait_for_ever_for_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "_PROVIDER_SECONDS", 0.05)
    let_go = threading.Event()
    with pytest.raises(BrokerError, match=r"Getting a token from it failed: no answer within 0\.05 s"):
        TokenSource("it", lambda: let_go.wait(LIMIT)).current()
    let_go.set()


def test_should_tell_kafka_python_whether_to_try_again() -> None:
    given = ("one", time.time() + 100, "", {"traceId": "7"})
    tokens = MemberTokens(TokenSource("it", lambda: given))
    assert (tokens.token(), tokens.extensions()) == ("one", {"traceId": "7"})
    for error, kind in ((ValueError("no"), SaslAuthenticationFailedError), (OSError("away"), KafkaConnectionError)):
        with pytest.raises(kind, match="Getting a token from it failed"):
            MemberTokens(TokenSource("it", Scripted(error))).token()


@pytest.mark.parametrize("claims", [b"[" * 100_000, b'{"exp": 1' + b"0" * 400 + b"}"], ids=["too deep", "no time"])
def test_should_refuse_claims_that_cannot_be_read(claims: bytes) -> None:
    with pytest.raises(ValueError, match="JWT"):
        expiry_of(f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.x")
