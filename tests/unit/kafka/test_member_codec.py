"""What travels in the group protocol: there and back, and what happens to bytes that nobody should have sent."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ids import TaskId
from penstock.kafka import member_codec as codec
from penstock.kafka.consumer_protocol import assignment_user_data, subscription_user_data
from penstock.kafka.member_codec import AssignmentFrame, MalformedError, MemberFrame
from penstock.kafka.members import Decision, MemberInfo, Shares

INFO = MemberInfo("p1", 2, "h:1", (TaskId(0, 0),), (TaskId(0, 1),), {TaskId(0, 0): -2, TaskId(0, 1): 17}, {"zone": "a"}, 4)
TOLD = json.loads(zlib.decompress(codec.encode_member(INFO, -1, "")))
SHARES = Shares(
    {"p1": [TaskId(0, 0), TaskId(3, 0)], "p2": [TaskId(0, 1), TaskId(2, 900)]},
    {"p1": [TaskId(0, 1)], "p2": [TaskId(0, 0)], "p3": [TaskId(0, 0)]},
    True,
)
HOSTS = [("p1", "h:1"), ("p2", ""), ("p3", "[::1]:9")]

Decode = Callable[[bytes], Any]
DECODERS: list[Decode] = [
    codec.decode_member,
    lambda raw: codec.decode_decision(raw, codec.encode_shared(HOSTS, SHARES, 0)),
    lambda raw: codec.decode_decision(codec.encode_own(0, False), raw),
    lambda raw: codec.decode_member(zlib.compress(raw)),
    lambda raw: codec.decode_decision(codec.encode_own(0, False), zlib.compress(raw)),
    MemberFrame.decode,
    AssignmentFrame.decode,
]


def test_should_carry_what_a_member_tells() -> None:
    assert codec.decode_member(codec.encode_member(INFO, 7, "run")) == (INFO, 7, "run")
    frame = MemberFrame(2, 3, b"x" * 32, b"body")
    assert MemberFrame.decode(frame.encode()) == frame


def test_should_have_members_of_the_previous_release_send_repartitions_through_their_topics() -> None:
    """The previous release also knew Spark's shuffle: not where a member asks for topics or the leader names none."""
    assert json.loads(zlib.decompress(codec.encode_member(INFO, 7, "run")))["transport"] == "topic"
    assert json.loads(zlib.decompress(codec.encode_shared(HOSTS, SHARES, 0)))["shuffled"] == []


def test_should_leave_out_what_is_no_task_and_refuse_to_be_given_it() -> None:
    """The previous release bound tasks together by a shuffle, as p0."""
    told = {**TOLD, "active": ["p0", "0_0"], "standby": ["p1", "0_1"], "offsets": {**TOLD["offsets"], "p0": 7, "00_1": 1}}
    assert codec.decode_member(zlib.compress(json.dumps(told).encode()))[0] == INFO
    shared = {"processes": [["a", ""], ["b", ""]], "active": {"0": [0, 1], "p0": 1}, "copies": [{"p0": 0, "p": [0], "0": [1]}]}
    raw = zlib.compress(json.dumps({**shared, "shuffled": [0], "pipelines": {"p0": [[1, 2]]}}).encode())
    found = codec.decode_decision(codec.encode_own(0, False), raw)
    assert found == Decision(
        (TaskId(0, 0),), (), {TaskId(0, 0): "a", TaskId(0, 1): "b"}, {TaskId(0, 0): ("b",)}, {"a": "", "b": ""}
    )
    with pytest.raises(MalformedError, match="p0 is assigned to this member but is no task"):
        codec.decode_decision(codec.encode_own(1, False), raw)


def test_should_carry_what_the_leader_decides() -> None:
    found = codec.decode_decision(codec.encode_own(1, False), codec.encode_shared(HOSTS, SHARES, 0))
    assert found == Decision(
        (TaskId(0, 1), TaskId(2, 900)),
        (TaskId(0, 0),),
        {TaskId(0, 0): "p1", TaskId(3, 0): "p1", TaskId(0, 1): "p2", TaskId(2, 900): "p2"},
        {TaskId(0, 1): ("p1",), TaskId(0, 0): ("p2", "p3")},
        dict(HOSTS),
        True,
    )
    frame = AssignmentFrame(2, b"x" * 32, b"{}", b"rest")
    assert AssignmentFrame.decode(frame.encode()) == frame


def test_should_ignore_what_it_does_not_know() -> None:
    told = {
        **TOLD,
        "colour": ["blue"],
        "generation": 3,
        "run": "x",
        "new": {"a": 1},
    }
    assert codec.decode_member(zlib.compress(json.dumps(told).encode())) == (INFO, 3, "x")
    shared = {"processes": [["p", "", "of a later release"]], "active": {"0": [0, 0]}, "future": 1}
    own = json.dumps({"process": 0, "later": None}).encode()
    assert codec.decode_decision(own, zlib.compress(json.dumps(shared).encode())).tasks == (TaskId(0, 0), TaskId(0, 1))


def with_fields(**changed: Any) -> bytes:
    return json.dumps({**TOLD, **changed}).encode()


# fmt: off
HOSTILE_MEMBERS: dict[str, bytes] = {
    **{f"{name} is {value!r}"[:60]: with_fields(**{name: value}) for name, values in {
        "process_id": [None, "", 1, [], "x" * 10_000, "a\nb", "\ud800", {"a": 1}],
        "capacity": [-1, 10**9, 1.5, True, "2", None, 10**40],
        "host": [None, 5, "0.0.0.0:80", "[::]:80", "nowhere", "h:0", "h:99999", "h" * 10_000 + ":1", "a\r\nb:1", ["h:1"]],
        "active": [None, "0_0", [1], [["0_0"]], {"0_0": 1}, ["x" * 10_000], ["0_0"] * (codec.MAX_TASKS + 1)],
        "offsets": [None, [], {"0_0": "1"}, {"0_0": 1.5}, {"0_0": None}, {"0_0": 2**70}, {"\ud800": 1}, {"0_0": True}],
        "tags": [None, [], {"zone": 1}, {"zone": "x" * 10_000}, {"zone": "\x1b[2J"}],
        "error_code": [None, "4", -1, 10**6, True],
    }.items() for value in values},
    "nothing": b"", "null": b"null", "a list": b"[]", "a number": b"1", "not UTF-8": b'{"process_id": "\xff"}',
    "no process": b"{}", "NaN": b'{"process_id": "p", "offsets": {"0_0": NaN}}',
    "infinity": b'{"process_id": "p", "capacity": Infinity}',
    "deep": b'{"process_id": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "huge": b'{"process_id": "' + b"p" * (1 << 21) + b'"}',
    "many digits": b'{"process_id": "p", "capacity": ' + b"9" * 100_000 + b"}", "cut short": with_fields()[:-5],
}
# fmt: on


@pytest.mark.parametrize("raw", HOSTILE_MEMBERS.values(), ids=[ascii(name) for name in HOSTILE_MEMBERS])
def test_should_refuse_a_member_that_tells_nonsense(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        codec.decode_member(zlib.compress(raw))


# fmt: off
HOSTILE_MAPS: list[dict[str, Any]] = [
    {"processes": None}, {"processes": [["p"]]}, {"processes": ["p"]}, {"processes": [[1, ""]]},
    {"processes": [["p", "0.0.0.0:1"]]}, {"processes": [["p", ""], ["p", ""]]}, {"active": []},
    {"active": {"0": [5]}}, {"active": {"0": [-2]}},
    {"active": {"0": ["p"]}},
    {"active": {"0": [0.0]}}, {"active": {"p0": -1}}, {"active": {"p0": 9}}, {"active": {"p0": None}}, {"active": {"0": [[0]]}},
    {"active": {"0": [0] * (codec.MAX_TASKS + 1)}}, {"copies": {}}, {"copies": [[]]}, {"copies": [{}] * 101}, {"probing": 1},
    {"error_code": -1}, {"error_code": "4"},
]
# fmt: on


@pytest.mark.parametrize("told", HOSTILE_MAPS, ids=lambda told: str(told)[:40])
def test_should_refuse_a_decision_that_is_nonsense(told: dict[str, Any]) -> None:
    shared = zlib.compress(json.dumps({"processes": [["q", "h:1"]], **told}).encode())
    with pytest.raises(MalformedError):
        codec.decode_decision(codec.encode_own(0, False), shared)
    with pytest.raises(MalformedError):
        codec.decode_decision(b'{"process": 7}', zlib.compress(b'{"processes": [["q", "h:1"]]}'))


def test_should_not_unpack_a_bomb() -> None:
    bomb = zlib.compress(b" " * (1 << 29))
    assert len(bomb) < codec.MAX_BYTES
    with pytest.raises(MalformedError, match="more than"):
        codec.decode_member(bomb)
    with pytest.raises(MalformedError, match="cut short"):
        codec.decode_member(codec.encode_member(INFO, 1, "")[:-4])
    with pytest.raises(MalformedError, match="too long"):
        codec.decode_member(codec.encode_member(INFO, 1, "") + b"more")


@given(st.binary(max_size=400))
def test_should_refuse_any_bytes_with_one_error(raw: bytes) -> None:
    for decode in DECODERS:
        with contextlib.suppress(MalformedError):
            decode(raw)
    for prefix in (b"", b"PM\x01\x02" + bytes(32), b"PA\x02" + bytes(32) + struct.pack(">I", 2)):
        for frame in (MemberFrame, AssignmentFrame):
            with contextlib.suppress(MalformedError):
                frame.decode(prefix + raw)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
FIELDS = [
    *TOLD,
    "processes",
    "copies",
    "probing",
]


@given(st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_should_refuse_any_json_with_one_error(told: dict[str, Any]) -> None:
    raw = json.dumps(told).encode()
    for decode in DECODERS:
        with contextlib.suppress(MalformedError):
            decode(raw)


def test_should_find_user_data_in_what_kafka_carries() -> None:
    subscription = b"\0\0" + b"\0\0\0\1" + b"\0\2in" + b"\0\0\0\3abc" + b"owned partitions"
    assert subscription_user_data(subscription) == b"abc"
    assignment = b"\0\0" + b"\0\0\0\1" + b"\0\2in" + b"\0\0\0\2" + bytes(8) + b"\0\0\0\3abc"
    assert assignment_user_data(assignment) == b"abc"
    assert subscription_user_data(b"\0\0" + bytes(4) + b"\xff\xff\xff\xff") == b""
    for raw in (b"", b"\0\0\x7f\xff\xff\xff", subscription[:-20], b"\0\0\xff\xff\xff\xff", assignment[:14]):
        for read in (subscription_user_data, assignment_user_data):
            with pytest.raises(ValueError):
                read(raw)
    with pytest.raises(ValueError):
        assignment_user_data(assignment[:-1])


@given(st.binary(max_size=100))
def test_should_find_user_data_or_say_that_there_is_none(raw: bytes) -> None:
    for read in (subscription_user_data, assignment_user_data):
        with contextlib.suppress(ValueError):
            assert isinstance(read(raw), bytes)
