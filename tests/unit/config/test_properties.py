from __future__ import annotations

import pytest

from penstock.config.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1\r\nb:2\rc 3\nd\t=\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n ! no\n\n  \nkey", {"key": ""}),
        ("a = b = c ", {"a": "b = c "}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=1\\\n   2\\\n\n3=4", {"a": "12", "3": "4"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=\\t\\u00e4\\n\\z", {"a": "\tä\nz"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\", {"a": "b"}),
        ("a=1\\\n# 2", {"a": "1# 2"}),
        ("=x", {"": "x"}),
        ("", {}),
    ],
)
def test_should_read_what_java_reads(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text) == entries


def test_should_refuse_a_malformed_escape() -> None:
    with pytest.raises(ValueError, match="four hexadecimal digits"):
        parse_properties("a=\\u12")
