"""Text of records and of other processes, made safe for a terminal and for a log."""

from __future__ import annotations

import re

# Control characters of ASCII and of ISO 8859, marks that turn the direction of text, line separators, halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_LINES = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def printable(text: str) -> str:
    r"""Escape what a terminal would act on, as JSON does: an escaped JSON text means the same.

    >>> printable("a\x1b[2Kb\n")
    'a\\u001b[2Kb\\u000a'
    """
    return _UNSAFE.sub(_escaped, text)


def printable_lines(text: str) -> str:
    r"""Escape the same but line feeds and tabs, in text of several lines.

    >>> printable_lines("a\x1b[2K\n\tb")
    'a\\u001b[2K\n\tb'
    """
    return _UNSAFE_IN_LINES.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
