import math
import pickle
import random
import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.change import ChangedSerde
from penstock.errors import ConfigError, SerializationError
from penstock.serdes.serde import Serde, Serdes, as_deserializer, as_serializer, resolve_serde
from penstock.serdes.windowed import WindowedSerdes

UUID = uuid.UUID("61cb3c4c-2f51-4a6e-9f4f-3d8d2f7d7c11")

KNOWN_BYTES = [
    (Serdes.string(), "kafka ü €", "6b61666b6120c3bc20e282ac"),
    (Serdes.string(), "", ""),
    (Serdes.long(), 922337203685477580, "0ccccccccccccccc"),
    (Serdes.long(), -1, "ffffffffffffffff"),
    (Serdes.integer(), 423412424, "193cc2c8"),
    (Serdes.integer(), -42, "ffffffd6"),
    (Serdes.short(), 32767, "7fff"),
    (Serdes.short(), -2, "fffe"),
    (Serdes.double(), 5678567.12312, "4155a979c7e132b5"),
    (Serdes.float(), 1.5, "3fc00000"),
    (Serdes.boolean(), True, "01"),
    (Serdes.boolean(), False, "00"),
    (Serdes.bytes(), b"my string", "6d7920737472696e67"),
    (Serdes.uuid(), UUID, str(UUID).encode().hex()),
    (Serdes.json(), {"b": [1, None, "é"], "a": True}, '{"b":[1,null,"é"],"a":true}'.encode().hex()),
    # fixed size: strategy 0, no nulls, 2 entries
    (Serdes.list_of(Serdes.integer()), [1, 2], "00 00000000 00000002 00000001 00000002"),
    # the position of the null comes first, the null itself takes no room
    (Serdes.list_of(Serdes.long()), [1, None], "00 00000001 00000001 00000002 0000000000000001"),
    # variable size: strategy 1, each entry with its length, -1 for null
    (Serdes.list_of(Serdes.string()), ["A", None, "BC"], "01 00000003 00000001 41 ffffffff 00000002 4243"),
    (Serdes.list_of(Serdes.boolean()), [True], "01 00000001 00000001 01"),
    (Serdes.list_of(Serdes.list_of(Serdes.short())), [[1], []],
     "01 00000002 0000000b 00 00000000 00000001 0001 00000009 00 00000000 00000000"),
]  # fmt: skip

ALL = {
    name: getattr(Serdes, name)()
    for name in (
        *("string", "long", "integer", "short", "double", "float", "boolean"),
        *("bytes", "byte_array", "byte_buffer", "uuid", "void", "json"),
    )
} | {
    "list of string": Serdes.list_of(Serdes.string()),
    "list of long": Serdes.list_of(Serdes.long()),
    "list of uuid": Serdes.list_of(Serdes.uuid()),
    "list of list": Serdes.list_of(Serdes.list_of(Serdes.integer())),
    "time windowed": WindowedSerdes.time_windowed(Serdes.string(), 10),
    "time windowed changelog": WindowedSerdes.time_windowed(Serdes.string(), 10).for_changelog(),
    "session windowed": WindowedSerdes.session_windowed(Serdes.long()),
    "change": ChangedSerde(Serdes.string()),
}


@pytest.mark.parametrize(("serde", "value", "expected"), KNOWN_BYTES)
def test_should_write_the_bytes_java_writes(serde, value, expected):
    assert serde.serializer("topic", value).hex() == expected.replace(" ", "")
    assert serde.deserializer("topic", bytes.fromhex(expected)) == value


@pytest.mark.parametrize("name", [name for name in ALL if name != "change"])
def test_should_pass_none_through(name):
    assert ALL[name].serializer("topic", None) is None
    assert ALL[name].deserializer("topic", None) is None


@pytest.mark.parametrize("name", ALL)
def test_should_only_fail_with_serialization_error_on_random_bytes(name):
    rng = random.Random(name)
    serde = ALL[name]
    for _ in range(10_000):
        data = rng.randbytes(rng.randrange(40))
        try:
            value = serde.deserializer("topic", data)
        except SerializationError:
            continue
        # What could be read can be written again, and then reads as the same; a changelog's key loses its sequence number.
        if name in ("change", "time windowed changelog") or value != value:
            continue
        assert serde.deserializer("topic", serde.serializer("topic", value)) == value


@pytest.mark.parametrize(
    ("serde", "bad", "message"),
    [
        (Serdes.string(), 3, "StringSerializer.*int.*'orders'.*expected str"),
        (Serdes.string(), b"x", "bytes"),
        (Serdes.long(), "3", "LongSerializer.*str.*64 bits"),
        (Serdes.long(), 2**63, "64 bits"),
        (Serdes.long(), 1.5, "float"),
        (Serdes.integer(), 2**31, "32 bits"),
        (Serdes.short(), 2**15, "16 bits"),
        (Serdes.double(), "x", "DoubleSerializer"),
        (Serdes.float(), 1e300, "FloatSerializer"),
        (Serdes.boolean(), 1, "BooleanSerializer"),
        (Serdes.bytes(), "x", "BytesSerializer"),
        (Serdes.uuid(), "x", "UUIDSerializer"),
        (Serdes.json(), {1, 2}, "JSON"),
        (Serdes.json(), math.nan, "JSON"),
        (Serdes.list_of(Serdes.string()), "abc", "ListSerializer"),
        (Serdes.list_of(Serdes.string()), [1], "StringSerializer"),
        (WindowedSerdes.time_windowed(Serdes.string(), 5), "k", "Windowed"),
    ],
)
def test_should_say_what_was_expected_of_a_value(serde, bad, message):
    with pytest.raises(SerializationError, match=message):
        serde.serializer("orders", bad)


@pytest.mark.parametrize(
    ("serde", "data", "message"),
    [
        (Serdes.long(), b"1", "size of data received by LongDeserializer is not 8: got 1 bytes.*'orders'"),
        (Serdes.integer(), b"12345", "IntegerDeserializer is not 4"),
        (Serdes.short(), b"", "ShortDeserializer is not 2"),
        (Serdes.double(), b"", "DoubleDeserializer is not 8"),
        (Serdes.float(), b"", "FloatDeserializer is not 4"),
        (Serdes.boolean(), b"11", "BooleanDeserializer is not 1"),
        (Serdes.boolean(), b"\x02", "unexpected byte received by BooleanDeserializer: 2"),
        (Serdes.void(), b"", "should be null"),
        (Serdes.uuid(), b"nonsense", "error parsing data into UUID"),
        (Serdes.json(), b"{", "is not JSON"),
        (Serdes.json(), b"\xff", "is not JSON"),
        (Serdes.json(), b"NaN", "is not JSON: NaN is Python's"),
        (Serdes.json(), b"[Infinity]", "is not JSON: Infinity is Python's"),
        (Serdes.json(), b'{"a":-Infinity}', "is not JSON: -Infinity is Python's"),
        (Serdes.json(), b"[1e999]", "is not JSON: 1e999 is larger than any number"),
        (Serdes.json(), b"-1" + b"0" * 400 + b".5", "is not JSON: -10+ is larger than any number"),
        (Serdes.json(), b'"\\ud800"', "half of a surrogate pair"),
        (Serdes.json(), b'{"\\uDC00x":1}', "half of a surrogate pair"),
        (Serdes.json(), b'"\xed\xa0\x80"', "is not JSON"),
        (Serdes.list_of(Serdes.string()), b"", "end of the data"),
        (Serdes.list_of(Serdes.string()), b"\x07", "strategy flag 7"),
        (Serdes.list_of(Serdes.string()), b"\x00" * 9, "fixed size"),
        (Serdes.list_of(Serdes.string()), bytes.fromhex("01 00000001 00000005 41"), "end of the data"),
        (Serdes.list_of(Serdes.long()), bytes.fromhex("00 ffffffff"), "nulls"),
    ],
)
def test_should_say_what_is_wrong_with_bytes(serde, data, message):
    with pytest.raises(SerializationError, match=message):
        serde.deserializer("orders", data)


@pytest.mark.parametrize(
    "text",
    ['"\\ud83d\\ude00"', '"\\uD83D\\uDE00 \\u00e9"', r'"\\ud800"', "[1.5,-0.0,1e308,1e-999]", '"NaN"', '{"Infinity":"1e999"}'],
)
def test_should_read_json_that_only_looks_as_if_it_could_not_be_written(text):
    value = Serdes.json().deserializer("orders", text.encode())
    assert Serdes.json().deserializer("orders", Serdes.json().serializer("orders", value)) == value


def test_should_replace_text_that_is_not_utf8_as_java_does():
    assert Serdes.string().deserializer("topic", b"a\xffb") == "a\ufffdb"
    assert Serdes.string().serializer("topic", "a\ud800") == b"a?"


def test_should_read_short_uuids_as_java_does():
    assert Serdes.uuid().deserializer("topic", b"1-2-3-4-5") == uuid.UUID("00000001-0002-0003-0004-000000000005")


def test_should_accept_any_bytes_like_value_and_give_a_view_from_byte_buffer():
    assert Serdes.bytes().serializer("topic", bytearray(b"ab")) == b"ab"
    assert Serdes.byte_buffer().serializer("topic", memoryview(b"ab")) == b"ab"
    assert isinstance(Serdes.byte_buffer().deserializer("topic", b"ab"), memoryview)
    assert Serdes.byte_array() == Serdes.bytes()


@given(st.integers(-(2**63), 2**63 - 1))
def test_should_read_longs_back(value):
    data = Serdes.long().serializer("topic", value)
    assert data == struct.pack(">q", value)
    assert Serdes.long().deserializer("topic", data) == value


@given(st.lists(st.one_of(st.none(), st.text(max_size=5)), max_size=6))
def test_should_read_lists_back(value):
    serde = Serdes.list_of(Serdes.string())
    value = [None if entry is None else entry.encode(errors="replace").decode() for entry in value]
    assert serde.deserializer("topic", serde.serializer("topic", value)) == value


@pytest.mark.parametrize("name", ALL)
def test_should_pickle(name):
    again = pickle.loads(pickle.dumps(ALL[name]))
    assert isinstance(again, Serde)
    if name != "change":
        assert again == ALL[name]
        assert hash(again) == hash(ALL[name])


def test_should_make_a_serde_of_two_callables():
    serde = Serdes.serde(lambda topic, value: f"{topic}:{value}".encode(), lambda topic, data: data.decode())
    assert serde.serializer("t", 1) == b"t:1"
    assert Serdes.serde(Serdes.long(), Serdes.long()) == Serdes.long()
    with pytest.raises(ConfigError):
        Serdes.serde(None, lambda topic, data: data)
    with pytest.raises(TypeError):
        Serdes.serde("x", "y")


def test_should_take_serdes_and_callables_for_serializers():
    assert as_serializer(Serdes.long()) is Serdes.long().serializer
    assert as_deserializer(lambda topic, data: len(data))("topic", b"abc") == 3
    assert as_serializer(None) is None
    with pytest.raises(TypeError, match="serializer"):
        as_serializer(3)


class UserSerde:
    serializer = staticmethod(lambda topic, value: b"user")
    deserializer = staticmethod(lambda topic, data: "user")


class Unmakeable:
    def __init__(self, argument):
        pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Serdes.long(), Serdes.long()),
        ("long", Serdes.long()),
        ("Serdes$StringSerde", Serdes.string()),
        ("org.apache.kafka.common.serialization.Serdes$ByteArraySerde", Serdes.bytes()),
        (Serdes.json, Serdes.json()),
        (int, Serdes.long()),
        (float, Serdes.double()),
        ("penstock.serdes.serde:Serdes.uuid", Serdes.uuid()),
    ],
)
def test_should_resolve_what_a_configuration_can_hold(value, expected):
    assert resolve_serde(value) == expected


def test_should_resolve_the_users_own_serdes():
    assert resolve_serde(UserSerde).serializer("t", 1) == b"user"
    assert resolve_serde(UserSerde()).deserializer("t", b"") == "user"


@pytest.mark.parametrize(
    "bad", ["nonsense", "no.such.module.Serde", 3, "penstock.serdes.serde:Nothing", object(), Unmakeable, lambda: 3]
)
def test_should_name_the_key_of_a_value_that_is_no_serde(bad):
    with pytest.raises(ConfigError, match=r"default\.key\.serde"):
        resolve_serde(bad, "default.key.serde")


def test_should_find_the_serde_of_a_python_type():
    assert Serdes.serde_from(bool) == Serdes.boolean()
    assert Serdes.serde_from(uuid.UUID) == Serdes.uuid()
    with pytest.raises(ConfigError, match="supported types"):
        Serdes.serde_from(range)


def test_should_show_how_a_serde_is_made():
    assert repr(Serdes.list_of(Serdes.long())) == "Serdes.list_of(Serdes.long())"
    assert repr(WindowedSerdes.session_windowed(Serdes.string())) == "WindowedSerdes.session_windowed(Serdes.string())"
