from __future__ import annotations

import pytest

from penstock.commands.text_serdes import TextSerde
from penstock.errors import SerializationError


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("string", "ada lövelace"),
        ("json", '{"customer":"ada","amount":30,"tags":["ä"]}'),
        ("json", "null"),
        ("long", "-9223372036854775808"),
        ("integer", "7"),
        ("short", "-7"),
        ("double", "1.5"),
        ("float", "0.25"),
        ("boolean", "true"),
        ("uuid", "0d54f6b4-4f5e-4a83-a1d8-0b2b9f6f3f0e"),
        ("bytes", "as it is"),
    ],
)
def test_should_print_what_it_has_written(name: str, text: str) -> None:
    serde = TextSerde(name)
    assert serde.decode("topic", serde.encode("topic", text.encode())) == text


def test_should_write_null_for_the_null_of_json_and_for_void() -> None:
    assert TextSerde("json").encode("topic", b"null") is None
    assert TextSerde("void").encode("topic", b"") is None


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("long", b"many", "'many' cannot be written as long: expected a whole number of 64 bits"),
        ("long", b"9223372036854775808", "expected a whole number of 64 bits"),
        ("integer", b"2147483648", "expected a whole number of 32 bits"),
        ("float", b"3e39", "expected a number of 32 bits"),
        ("double", b"", "expected a number"),
        ("boolean", b"yes", "expected true or false"),
        ("uuid", b"7", "expected a UUID"),
        ("json", b"{", "'{' cannot be written as json: expected JSON"),
        ("json", b"[" * 100_000, "expected JSON"),
        ("json", b"\xff", "expected JSON"),
        ("string", b"\xff", r"'\\xff' cannot be written as string: expected UTF-8"),
        ("void", b"x", "expected nothing"),
    ],
)
def test_should_name_the_text_that_a_serde_does_not_write(name: str, text: bytes, expected: str) -> None:
    with pytest.raises(SerializationError) as refused:
        TextSerde(name).encode("topic", text)
    assert expected in str(refused.value)
    assert len(str(refused.value)) < 200


def test_should_name_the_bytes_that_a_serde_does_not_read() -> None:
    with pytest.raises(SerializationError, match="3 bytes cannot be read as long: expected a whole number of 64 bits"):
        TextSerde("long").decode("topic", b"abc")


@pytest.mark.parametrize("name", ["string", "bytes", "json"])
def test_should_escape_what_a_terminal_would_act_on(name: str) -> None:
    data = b'"\\u001b[2J\\t"' if name == "json" else b"\x1b[2J\t\n"
    shown = TextSerde(name).decode("topic", data)
    assert shown.isprintable()
    assert "[2J" in shown


def test_should_show_bytes_that_are_no_text() -> None:
    assert TextSerde("bytes").decode("topic", b"a\xff\x00") == "a\\xff\\u0000"
    assert TextSerde("string").decode("topic", None) == "null"
