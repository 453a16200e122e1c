"""Every parser of bytes from outside the process: what it reads, bytes that it takes, and the errors that it documents."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka.schema_registry import Schema

from penstock import SerializationError
from penstock.errors import ProcessorStateError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka import member_codec as codec
from penstock.kafka.consumer_protocol import assignment_user_data, subscription_user_data
from penstock.kafka.group_protocol import GroupProtocol, JoinedMember, RefusedError
from penstock.kafka.member_codec import AssignmentFrame, MalformedError, MemberFrame
from penstock.kafka.members import MemberIdentity, MemberInfo, Shares
from penstock.kafka.record_batches import UnreadableBatchError, read_batches
from penstock.kafka.tokens import expiry_of
from penstock.peers.proofs import PeerKeys
from penstock.peers.session import PART_HEAD_BYTES, AnsweringSessions, AskingSession, UnprovenError, read_part_head
from penstock.query.position import Position
from penstock.runtime.offset_metadata import OffsetAndMetadata, ProcessorMetadata, TopicPartitionMetadata
from penstock.schema_registry import AvroSerde, JsonSchemaSerde, ProtobufSerde
from penstock.schema_registry.clients import client_for
from penstock.spark.record_block import RecordBlock
from penstock.spark.vectors import Vector
from penstock.state.aggregation_with_headers import plain_aggregation
from penstock.state.buffers.changelog import read_changelog_record
from penstock.state.buffers.values import BufferValue, Reader
from penstock.state.engines.versioned_segment_value import SegmentValue
from penstock.state.value_timestamp_headers import serialize_headers, split_headers
from penstock.wire import Codec
from tests.abuse.test_serdes import LISTS, NESTED, PLAIN
from tests.abuse.test_state import CONTEXT, RawRecord
from tests.harness.protobuf_messages import MESSAGES
from tests.unit.kafka.test_record_batches import batch

Errors = type[Exception] | tuple[type[Exception], ...]


@dataclass(frozen=True)
class Parser:
    """Gives a value for bytes, or one of its errors."""

    read: Callable[[bytes], Any]
    valid: Sequence[bytes] = ()
    errors: Errors = SerializationError


REGISTRY = {"schema.registry.url": "mock://fuzz"}
SOURCES = [TopicPartition("lines", 0), TopicPartition("lines", 1)]
TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "nothing", "type": {"type": "array", "items": "null"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "below", "type": {"type": "array", "items": "Tree"}},
        {"name": "by_name", "type": {"type": "map", "values": ["null", "Tree", "double"]}},
    ],
}
LIST = {"title": "List", "properties": {"next": {"$ref": "#"}}}
LEAF: dict[str, Any] = {"name": "leaf", "nothing": [None] * 3, "amount": Decimal("1.25"), "below": [], "by_name": {}}


def _serde(serde: Any, values: Sequence[Any]) -> Parser:
    valid = [data for value in values if (data := serde.serializer("topic", value)) is not None]
    return Parser(lambda data: serde.deserializer("topic", data), valid)


def _avro(serde: AvroSerde[Any], schema: Any, payloads: Sequence[bytes]) -> Parser:
    """The payload is hostile, under a schema that is known: most of the time would go into unknown ids otherwise."""
    number = client_for({"url": REGISTRY["schema.registry.url"]}).register_schema("fuzz", Schema(json.dumps(schema), "AVRO"))
    head = b"\0" + struct.pack(">I", number)
    return Parser(lambda data: serde.deserializer("topic", head + data), payloads)


def _group(keys: PeerKeys | None) -> Parser:
    """A leader with one member of its own; the bytes are a stranger's, and never end it."""
    own = MemberInfo("a", host="localhost:1", offsets={})
    leader = GroupProtocol("shop", keys, lambda: own, lambda infos: Shares({info.process_id: [TaskId(0, 0)] for info in infos}))
    me, stranger = MemberIdentity("m1"), MemberIdentity("m9")

    def read(data: bytes) -> None:
        told = leader.decide([JoinedMember(me, leader.tell(me, 1)), JoinedMember(stranger, data, len(data))], 5)
        assert told["m1"]
        with_own = leader.take(told["m1"], me, 5)
        assert with_own.hosts["a"] == "localhost:1"

    return Parser(read, [leader.tell(stranger, 1)], ())


def _peer() -> Parser:
    keys = PeerKeys.derive("secret", "shop")
    server = AnsweringSessions(keys.peer, "localhost:1")
    client = AskingSession(keys.peer, "localhost:1")
    opened = server.answer_opening(client.opening.partition("nonce=")[2])
    assert opened is not None
    client.open(*opened)
    valid = [client.request("GET", b"/")[1].encode() for _ in range(3)]

    def read(data: bytes) -> None:
        server.admit(data, "GET", b"/api")
        server.answer_opening(data.decode("latin-1"))
        AskingSession(keys.peer, "localhost:1").open(data.decode("latin-1"), opened[1])

    return Parser(_suppressing(read, UnprovenError), valid)


def _suppressing(read: Callable[[bytes], Any], errors: Errors) -> Callable[[bytes], Any]:
    def reading(data: bytes) -> None:
        with contextlib.suppress(*(errors if isinstance(errors, tuple) else (errors,))):
            read(data)

    return reading


def _decisions() -> dict[str, Parser]:
    shares, hosts = (
        Shares({"a": [TaskId(0, 0), TaskId(0, 1)], "b": [TaskId(1, 0)]}, {"b": [TaskId(0, 0)]}),
        {"a": "localhost:1", "b": "localhost:2"},
    )
    shared, own = codec.encode_shared(list(hosts.items()), shares, 0), codec.encode_own(0, False)
    info = MemberInfo("a", 2, "localhost:1", (TaskId(0, 0),), (), {TaskId(0, 0): 7}, {"zone": "z"})
    member = GroupProtocol("shop", None, lambda: info, lambda _: shares)
    frame = AssignmentFrame(2, codec.NO_PROOF, own, shared).encode()
    return {
        "members": Parser(lambda data: MemberFrame.decode(data), [member.tell(MemberIdentity("m"), 1)], MalformedError),
        "member bodies": Parser(codec.decode_member, [codec.encode_member(info, 1, "run")], MalformedError),
        "assignments": Parser(lambda data: member.take(data, MemberIdentity("m"), 5), [frame], RefusedError),
        "assignment maps": Parser(lambda data: codec.decode_decision(own, data), [shared], MalformedError),
    }


def _jwt(claims: bytes) -> str:
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.x"


def parsers() -> dict[str, Parser]:
    """All of them, by name."""
    import fastavro

    keys = PeerKeys.derive("secret", "shop")
    tree, buffer = fastavro.parse_schema(TREE), io.BytesIO()
    fastavro.schemaless_writer(buffer, tree, {**LEAF, "below": [LEAF, LEAF], "by_name": {"x": LEAF, "y": None, "z": 1.5}})
    wire = Codec(TaskId, TopicPartition)
    times = TopicPartitionMetadata(5, ProcessorMetadata({"store": 7})).encode()
    vectors = [
        Vector(7, {SOURCES[0]: 3, SOURCES[1]: 4}, {SOURCES[0]: 1}).committed(text, SOURCES).metadata for text in ("", times)
    ]
    entries: list[Any] = [(5, b"k", b"v"), (6, None, b"w" * 100), (7, b"k2", None)]
    texts, numbers = pa.array([b"x", None]), np.array([1, 2], np.int64)
    blocks = [
        RecordBlock(texts, texts, numbers).to_bytes(),
        RecordBlock(texts, texts, numbers, [(), (("name", b"value"), ("none", None))], numbers).to_bytes(),
    ]
    headers = serialize_headers((("name", b"value"), ("ä", b""), ("none", None)))
    return {
        **{name: _serde(*found) for name, found in PLAIN.items()},
        **{f"list of {name}": _serde(*found) for name, found in LISTS.items()},
        **{f"nested {name}": _serde(*found) for name, found in NESTED.items()},
        "avro": _avro(AvroSerde(TREE, REGISTRY), TREE, [buffer.getvalue()]),
        "avro as written": _avro(AvroSerde(None, REGISTRY), TREE, [buffer.getvalue()]),
        "avro frames": _serde(AvroSerde(TREE, REGISTRY), [LEAF]),
        "json schema": _serde(JsonSchemaSerde(LIST, REGISTRY), [{}, {"next": {"next": {}}}]),
        "protobuf": _serde(ProtobufSerde(MESSAGES["Order"], REGISTRY), [MESSAGES["Order"](sku="a", count=3)]),
        "recursive protobuf": _serde(ProtobufSerde(MESSAGES["Node"], REGISTRY), [MESSAGES["Node"](below=MESSAGES["Node"]())]),
        "strangers": _group(keys),
        "strangers without a token": Parser(_group(None).read, [], ()),
        **_decisions(),
        "subscriptions": Parser(subscription_user_data, [bytes.fromhex("0000 00000001 0001 61 00000002 abcd")], ValueError),
        "consumer assignments": Parser(
            assignment_user_data, [bytes.fromhex("0000 00000001 0001 61 00000001 00000000 00000002 abcd")], ValueError
        ),
        "peers": _peer(),
        "parts of answers": Parser(
            lambda data: read_part_head(data[:PART_HEAD_BYTES].ljust(PART_HEAD_BYTES)), [bytes(PART_HEAD_BYTES)], UnprovenError
        ),
        "batches": Parser(
            lambda data: read_batches("log", 3, data, 0),
            [batch(0, entries), batch(3, entries, compression=1), batch(0, entries) + batch(3, entries)],
            UnreadableBatchError,
        ),
        "wire": Parser(wire.decode, [wire.encode({TaskId(0, 3): [1, None, b"raw", "text", 0.5], "x": [TopicPartition("t", 1)]})]),
        "blocks": Parser(lambda data: RecordBlock.from_bytes(data).columns(SOURCES[0], range(100_000)), blocks),
        "vectors": Parser(
            lambda data: Vector.of(OffsetAndMetadata(0, data.decode("latin-1")), SOURCES), [text.encode() for text in vectors]
        ),
        "carry-over": Parser(lambda data: TopicPartitionMetadata.decode(data.decode("latin-1")), [times.encode()], ()),
        "positions": Parser(Position.from_json, [Position.from_map({"orders": {0: 41}}).to_json().encode(), b"{}"]),
        "headers in stores": Parser(split_headers, [headers + bytes(8) + b"v"]),
        "aggregations in stores": Parser(plain_aggregation, [headers + b"v"]),
        "versions in stores": Parser(SegmentValue.deserialize),
        "values in buffers": Parser(
            lambda data: Reader(data).buffer_value(), [BufferValue(b"prior", b"old", b"new", CONTEXT).serialize()]
        ),
        "changelogs of buffers": Parser(
            lambda data: read_changelog_record(RawRecord("topic", 0, 1, 2, b"k", data, (("v", b"\x03"),)), b"prior"),
            [BufferValue(b"prior", b"old", b"new", CONTEXT).serialize() + bytes(8)],
            ProcessorStateError,
        ),
        "tokens": Parser(lambda data: expiry_of(_jwt(data)), [b'{"exp": 1700000000}', b'{"exp": 1.5, "sub": "me"}'], ValueError),
    }
