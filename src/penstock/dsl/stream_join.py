"""The joins of a stream: with another stream, with a table, with a global table, told apart by the other side's class."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.dsl import global_ktable, kstream, ktable
from penstock.dsl.abstract_stream import joiner_with_key
from penstock.dsl.arguments import option
from penstock.dsl.options import Joined, StreamJoined, renamed
from penstock.dsl.stream_stream_join import join_streams
from penstock.dsl.stream_table_join import join_global_table, join_table
from penstock.user_code import misuse
from penstock.windows import JoinWindows


def join(
    stream: kstream.KStream[Any, Any], other: Any, arguments: tuple[Any, ...], options: dict[str, Any], left: bool, right: bool
) -> kstream.KStream[Any, Any]:
    """Join a stream with the other side; `arguments` and `options` are checked against the form for the other side's class."""
    if isinstance(other, kstream.KStream):
        join, call = partial(_join_stream, stream, other, left, right), "join(other_stream, joiner, JoinWindows(…))"
    elif isinstance(other, ktable.KTable):
        join, call = partial(_join_table, stream, other, left), "join(table, joiner, joined=None)"
    elif isinstance(other, global_ktable.GlobalKTable):
        join, call = partial(_join_global_table, stream, other, left), "join(global_table, key_selector, joiner)"
    else:
        raise misuse(f"a stream joins with a KStream, a KTable or a GlobalKTable, not with {other!r}")
    try:
        inspect.signature(join).bind(*arguments, **options)
    except TypeError as exc:
        raise misuse(f"{exc}; with a {type(other).__name__} it is {call}") from None
    return join(*arguments, **options)


def _join_stream(
    stream: kstream.KStream[Any, Any],
    other: kstream.KStream[Any, Any],
    left: bool,
    right: bool,
    joiner: Callable[..., Any],
    windows: JoinWindows,
    stream_joined: StreamJoined[Any, Any, Any] | None = None,
    with_key: bool = False,
    name: str | None = None,
) -> kstream.KStream[Any, Any]:
    if not isinstance(windows, JoinWindows):
        raise misuse(f"the third argument is JoinWindows, got {windows!r}: write join(other_stream, joiner, JoinWindows(…))")
    options = renamed(option(StreamJoined, stream_joined) or StreamJoined(), name)
    return join_streams(stream, other, joiner_with_key(joiner, with_key), windows, options, left, right)


def _join_table(
    stream: kstream.KStream[Any, Any],
    other: ktable.KTable[Any, Any],
    left: bool,
    joiner: Callable[..., Any],
    joined: Joined[Any, Any, Any] | None = None,
    with_key: bool = False,
    name: str | None = None,
) -> kstream.KStream[Any, Any]:
    options = renamed(option(Joined, joined) or Joined(), name)
    return join_table(stream, other, joiner_with_key(joiner, with_key), options, left)


def _join_global_table(
    stream: kstream.KStream[Any, Any],
    other: global_ktable.GlobalKTable[Any, Any],
    left: bool,
    key_selector: Callable[..., Any],
    joiner: Callable[..., Any],
    with_key: bool = False,
    name: str | None = None,
) -> kstream.KStream[Any, Any]:
    return join_global_table(stream, other, key_selector, joiner_with_key(joiner, with_key), left, name)
