"""Java's `.properties` format: `key=value` lines, comments, continued lines and escapes."""

from __future__ import annotations

import re

_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|\Z)", re.DOTALL)
_SPECIAL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    r"""Return the entries of a properties file as `java.util.Properties` reads them; the last of two equal keys counts.

    >>> parse_properties("# brokers\nbootstrap.servers = a:9092,\\\n    b:9092\nsasl.password: p\\u00e4ss\npoll.ms 50")
    {'bootstrap.servers': 'a:9092,b:9092', 'sasl.password': 'päss', 'poll.ms': '50'}
    """
    found = {}
    for line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        assert pair is not None  # the pattern matches every text
        found[_unescaped(pair[1])] = _unescaped(pair[2])
    return found


def _logical_lines(text: str) -> list[str]:
    """Return the entries: lines without comments and blank lines, each joined with the lines that continue it."""
    lines: list[str] = []
    continued = False
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if not continued and (not line or line[0] in "#!"):
            continue
        more = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        part = line[:-1] if more else line
        if continued:
            lines[-1] += part
        else:
            lines.append(part)
        continued = more
    return lines


def _unescaped(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        escape = found[1]
        if escape.startswith("u"):
            if len(escape) < 5:
                raise ValueError("an escape \\u needs four hexadecimal digits")
            return chr(int(escape[1:], 16))
        return _SPECIAL.get(escape, escape)

    return _ESCAPE.sub(replace, text)
