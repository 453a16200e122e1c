from __future__ import annotations

import pickle

import pytest

from penstock import ConfigError, Serdes, SerializationError

# Text, encoding, and the bytes of Java's StringSerializer.
CASES = [
    ("aé", "UTF-8", b"a\xc3\xa9"),
    ("aé", "ISO-8859-1", b"a\xe9"),
    ("a€", "ISO-8859-1", b"a?"),
    ("é", "US-ASCII", b"?"),
    ("aé", "UTF-16", b"\xfe\xff\x00a\x00\xe9"),
    ("aé", "UTF-16BE", b"\x00a\x00\xe9"),
    ("aé", "UTF-16LE", b"a\x00\xe9\x00"),
    ("a", "UTF-32", b"\x00\x00\x00a"),
    ("", "UTF-16", b"\xfe\xff"),
]


@pytest.mark.parametrize(("text", "encoding", "written"), CASES)
def test_should_write_what_java_writes(text: str, encoding: str, written: bytes) -> None:
    serde = pickle.loads(pickle.dumps(Serdes.string(encoding)))
    assert serde.serializer("topic", text) == written
    assert serde.serializer("topic", None) is None
    assert serde.deserializer("topic", None) is None
    if b"?" not in written:
        assert serde.deserializer("topic", written) == text


def test_should_read_utf_16_in_both_byte_orders() -> None:
    read = Serdes.string("UTF-16").deserializer
    assert read("topic", b"\xff\xfea\x00") == "a"
    assert read("topic", b"\x00a") == "a"
    assert Serdes.string("UTF-16LE").deserializer("topic", b"\x00") == "\ufffd"


def test_should_be_the_usual_serde_for_utf_8() -> None:
    assert Serdes.string("utf8") is Serdes.string()


def test_should_refuse_what_is_no_encoding_and_what_is_no_text() -> None:
    with pytest.raises(ConfigError, match="unknown encoding: nonsense"):
        Serdes.string("nonsense")
    with pytest.raises(SerializationError, match="StringSerializer"):
        Serdes.string("UTF-16").serializer("topic", 5)  # type: ignore[arg-type]
