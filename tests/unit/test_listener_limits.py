"""docs/security.md has the numbers of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.client.web import answers, application, connections, guard, server
from penstock.kafka import clients, dev_broker, fetch
from penstock.peers import session
from penstock.runtime.queries import arrow_table
from penstock.spark import record_block
from penstock.spark.queries import channel, listening, query_listener, store_locator

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
KIB, MIB = 1024, 1024 * 1024


def cells(listener: str) -> list[str]:
    """The cells of a listener's row, after its name."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {listener} |")]
    assert len(rows) == 1, f"one row for {listener}"
    return [cell.strip() for cell in rows[0].strip("|").split("|")[1:]]


def test_should_list_the_limits_of_the_query_server() -> None:
    slots = guard.SLOTS
    assert cells("query server")[1:] == [
        f"{connections.MAX_CONNECTIONS}, counted at accept",
        f"{slots['queries']} queries, {slots['requests']} requests, {slots['status requests']} for `/api/app`, "
        f"{slots['metrics requests']} for `/metrics`, {slots['files']} files, {slots['viewers']} viewers, "
        f"{application._TABLES} tables, {application._POOLS['changes'][0]} page of changes",
        f"{server.MAX_HEADER_BYTES // KIB} KiB of headers, {guard.MAX_TARGET // KIB} KiB of address, "
        f"{guard.MAX_BODY // KIB} KiB of body; pages of {answers.MAX_ANSWER_BYTES // MIB} MiB or one entry, "
        f"table batches of {arrow_table.BATCH_BYTES // MIB} MiB",
        f"{connections.HEAD_SECONDS:.0f} s for TLS, {connections.HEAD_SECONDS:.0f} s for a request's head, "
        f"{guard.REQUEST_SECONDS:.0f} s for an answer, {guard.SEND_SECONDS:.0f} s without reading, "
        f"{connections.KEEP_ALIVE_SECONDS} s idle; a table {guard.TABLE_SECONDS / 60:.0f} minutes, "
        f"a viewer {guard.VIEWER_SECONDS / 3600:.0f} h",
        "the connection that has waited for its client for longest is closed; 503 if all slots of a kind are in use",
    ]
    # All that can be answered at a time fits into the connections: one of them waits for its client and can be given up.
    assert sum(slots.values()) < connections.MAX_CONNECTIONS


def test_should_list_the_limits_of_the_metrics_server() -> None:
    assert cells("metrics server")[1:3] == [
        f"{connections.MAX_CONNECTIONS}, counted at accept",
        f"{guard.SLOTS['metrics requests']}",
    ]


def test_should_list_the_limits_of_requests_of_other_instances() -> None:
    assert cells("query server, other instances")[2:5] == [
        f"{application._POOLS['peers'][0]} threads; {session.MAX_SESSIONS:,} sessions",
        f"parts of {session.MAX_PART // MIB} MiB",
        f"{session.SESSION_SECONDS / 60:.0f} minutes a session",
    ]


@pytest.mark.parametrize(
    ("listener", "idle"), [("stream threads", query_listener._IDLE_SECONDS), ("driver's store locator", None)]
)
def test_should_list_the_limits_of_channels(listener: str, idle: float | None) -> None:
    strangers = channel._NONCE_SIZE + channel._PROOF_SIZE
    waits = f"{idle:.0f} s idle" if idle else f"{store_locator._REQUEST_SECONDS:.0f} s for a request"
    assert cells(listener)[1:5] == [
        f"{listening.MAX_STRANGERS} without a proof, {listening.MAX_READERS} with one",
        f"{listening.MAX_READERS}, a thread each",
        f"{strangers} before the proof; {channel.MAX_REQUEST // MIB} MiB a request, {channel.MAX_ANSWER // MIB} MiB an answer",
        f"{channel.PROOF_SECONDS:.0f} s for TLS, {channel.PROOF_SECONDS:.0f} s for the proof, "
        f"{channel._MESSAGE_SECONDS:.0f} s a message, {waits}",
    ]


def test_should_bind_the_development_broker_to_this_host_only() -> None:
    assert cells("development broker")[0] == f"`{dev_broker._HOST}`, no authentication"


def test_should_state_what_is_unpacked_at_a_time() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"{fetch.MOST_BYTES // MIB} MiB + {fetch.AHEAD_KIB // KIB} MiB + 5 x what one answer unpacks to" in text
    assert f"`consumer.fetch.max.bytes` ({clients.FETCH_BYTES // MIB} MiB)" in text


def test_should_state_how_large_a_block_may_be() -> None:
    assert record_block.MOST_RECORDS == 2**31
    assert f"{record_block.MOST_ROWS:,} rows, a row stands for 2^31 records at most" in PAGE.read_text(encoding="utf-8")
