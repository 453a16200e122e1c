"""The joins of a stream: with another stream, with a table, with a global table, with a DataFrame."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, overload

from penstock.dsl import global_ktable, kstream, ktable
from penstock.dsl.abstract_stream import joiner_with_key
from penstock.dsl.arguments import option
from penstock.dsl.kstream_base import StreamBase
from penstock.dsl.options import Joined, StreamJoined, renamed
from penstock.dsl.stream_dataframe_join import join_dataframe
from penstock.dsl.stream_stream_join import join_streams
from penstock.dsl.stream_table_join import join_global_table, join_table
from penstock.dsl.typevars import GK, GV, VO, VR, K, V
from penstock.processor import Duration
from penstock.user_code import misuse
from penstock.windows import JoinWindows


class JoinOperators(StreamBase[K, V]):
    """join, left_join and outer_join."""

    @overload
    def join(
        self,
        other: kstream.KStream[K, VO],
        joiner: Callable[[V, VO], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: kstream.KStream[K, VO],
        joiner: Callable[[K, V, VO], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: ktable.KTable[K, VO],
        joiner: Callable[[V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: ktable.KTable[K, VO],
        joiner: Callable[[K, V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: global_ktable.GlobalKTable[GK, GV],
        key_selector: Callable[[K, V], GK],
        joiner: Callable[[V, GV], VR],
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: global_ktable.GlobalKTable[GK, GV],
        key_selector: Callable[[K, V], GK],
        joiner: Callable[[K, V, GV], VR],
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...

    def join(self, other: Any, *arguments: Any, **options: Any) -> kstream.KStream[Any, Any]:
        """Join each record with those of the same key on the other side; records without a match give nothing.

        - a stream: `join(other, joiner, JoinWindows(…), stream_joined=None)`, records at most so far apart;
        - a table: `join(other, joiner, joined=None)`, the table's value at that moment;
        - a global table: `join(other, key_selector, joiner)`, looked up under `key_selector(key, value)`.

        The joiner gets the value of this side and that of the other; with `with_key=True` the key first.
        """
        return self._join(other, arguments, options, left=False, right=False)

    @overload
    def left_join(
        self,
        other: kstream.KStream[K, VO],
        joiner: Callable[[V, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: kstream.KStream[K, VO],
        joiner: Callable[[K, V, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: ktable.KTable[K, VO],
        joiner: Callable[[V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: ktable.KTable[K, VO],
        joiner: Callable[[K, V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: global_ktable.GlobalKTable[GK, GV],
        key_selector: Callable[[K, V], GK],
        joiner: Callable[[V, GV | None], VR],
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: global_ktable.GlobalKTable[GK, GV],
        key_selector: Callable[[K, V], GK],
        joiner: Callable[[K, V, GV | None], VR],
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...

    def left_join(self, other: Any, *arguments: Any, **options: Any) -> kstream.KStream[Any, Any]:
        """Like `join`, but a record of this side without a match is joined with None.

        Between two streams that result comes once the window has closed without a match.
        """
        return self._join(other, arguments, options, left=True, right=False)

    @overload
    def outer_join(
        self,
        other: kstream.KStream[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: kstream.KStream[K, VO],
        joiner: Callable[[K, V | None, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> kstream.KStream[K, VR]: ...

    def outer_join(self, other: Any, *arguments: Any, **options: Any) -> kstream.KStream[Any, Any]:
        """Like `left_join` with another stream, but records of either side without a match are joined with None."""
        if not isinstance(other, kstream.KStream):
            raise misuse(f"outer_join is for two streams; a stream cannot be outer joined with {other!r}")
        return self._join(other, arguments, options, left=True, right=True)

    def join_dataframe(
        self,
        make_dataframe: Callable[..., Any],
        joiner: Callable[..., Any],
        on: str | Sequence[str] | tuple[str | Sequence[str], Callable[[K, V], Any]],
        refresh: Duration | None = None,
        *,
        with_key: bool = False,
        name: str | None = None,
    ) -> kstream.KStream[K, Any]:
        """Join each record with the row of a DataFrame; records without a row give nothing. Not part of Kafka Streams.

        `make_dataframe` is called in the driver, with the SparkSession if it takes a parameter, before the start and then every
        `refresh`. It may return a `pyarrow.Table` or a list of dicts as well. If a refresh fails, the rows of the last one are
        kept. Each stream thread has a copy of the rows in memory. `on="user_id"` looks up the record's key in that column, and
        `on=("user_id", lambda key, value: value["user"])` what the function returns. With several columns the key is a tuple.
        The joiner gets the value and the row as a dict; with `with_key=True` the key first.

        >>> from penstock import Consumed, Produced, Serdes, StreamsBuilder, TopologyTestDriver
        >>> builder, text = StreamsBuilder(), Serdes.string()
        >>> clicks = builder.stream("clicks", Consumed(text, text))
        >>> users = lambda: [{"user_id": "u1", "city": "Oslo"}]
        >>> clicks.join_dataframe(users, lambda page, user: f"{page} from {user['city']}", on="user_id").to("placed")
        >>> with TopologyTestDriver(builder.build(), {"default.key.serde": text, "default.value.serde": text}) as driver:
        ...     driver.create_input_topic("clicks", text, text).pipe_key_values([("u1", "home"), ("u2", "home")])
        ...     driver.create_output_topic("placed", text, text).read_key_values()
        [('u1', 'home from Oslo')]
        """
        return join_dataframe(self, make_dataframe, joiner_with_key(joiner, with_key), on, refresh, name)

    def _join(
        self, other: Any, arguments: tuple[Any, ...], options: dict[str, Any], left: bool, right: bool
    ) -> kstream.KStream[Any, Any]:
        if isinstance(other, kstream.KStream):
            join, call = partial(self._join_stream, other, left, right), "join(other_stream, joiner, JoinWindows(…))"
        elif isinstance(other, ktable.KTable):
            join, call = partial(self._join_table, other, left), "join(table, joiner, joined=None)"
        elif isinstance(other, global_ktable.GlobalKTable):
            join, call = partial(self._join_global_table, other, left), "join(global_table, key_selector, joiner)"
        else:
            raise misuse(f"a stream joins with a KStream, a KTable or a GlobalKTable, not with {other!r}")
        try:
            inspect.signature(join).bind(*arguments, **options)
        except TypeError as exc:
            raise misuse(f"{exc}; with a {type(other).__name__} it is {call}") from None
        return join(*arguments, **options)

    def _join_stream(
        self,
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
        return join_streams(self, other, joiner_with_key(joiner, with_key), windows, options, left, right)

    def _join_table(
        self,
        other: ktable.KTable[Any, Any],
        left: bool,
        joiner: Callable[..., Any],
        joined: Joined[Any, Any, Any] | None = None,
        with_key: bool = False,
        name: str | None = None,
    ) -> kstream.KStream[Any, Any]:
        options = renamed(option(Joined, joined) or Joined(), name)
        return join_table(self, other, joiner_with_key(joiner, with_key), options, left)

    def _join_global_table(
        self,
        other: global_ktable.GlobalKTable[Any, Any],
        left: bool,
        key_selector: Callable[..., Any],
        joiner: Callable[..., Any],
        with_key: bool = False,
        name: str | None = None,
    ) -> kstream.KStream[Any, Any]:
        return join_global_table(self, other, key_selector, joiner_with_key(joiner, with_key), left, name)
