"""Tables for notebooks, as HTML. Whatever an application or a record brings is escaped and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from html import escape
from typing import Any

_LONGEST = 300


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "", note: str = "") -> str:
    """A table with a row for each of `rows`. Numbers are aligned on the right, with separators.

    >>> table(["word", "count"], [("<b>", 1234)]).partition("<tbody>")[2]
    '<tr><td style="text-align:left">&lt;b&gt;</td><td style="text-align:right">1,234</td></tr></tbody></table>'
    """
    head = "".join(f'<th style="text-align:left">{escape(text)}</th>' for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    found = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return paragraph(title, strong=True) + found + paragraph(note)


def paragraph(text: str, *, strong: bool = False) -> str:
    """A line of text; empty where there is none.

    >>> paragraph("a < b")
    '<p style="margin:4px 0">a &lt; b</p>'
    """
    if not text:
        return ""
    inner = escape(text)
    return f'<p style="margin:4px 0">{f"<b>{inner}</b>" if strong else inner}</p>'


def moment(ms: int) -> str:
    """A timestamp in milliseconds as a date and a time of day, in UTC.

    >>> moment(0), moment(2**62)
    ('1970-01-01 00:00:00 UTC', '4611686018427387904')
    """
    try:
        return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return str(ms)


def shown(value: Any) -> str:
    """A key or a value as text, at most some hundred characters of it.

    >>> shown("x" * 400)[-3:], shown({"a": 1})
    ('x …', "{'a': 1}")
    """
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"


def _cell(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
        return f'<td style="text-align:right">{number}</td>'
    return f'<td style="text-align:left">{escape(shown(value))}</td>'
