"""The joins of a table: with another table by key, or by a foreign key in the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from penstock.dsl import ktable
from penstock.dsl.abstract_stream import joiner_with_key, required, value_mapper_with_key
from penstock.dsl.foreign_key_join import join_on_foreign_key
from penstock.dsl.ktable_base import TableBase
from penstock.dsl.options import Materialized, TableJoined, renamed
from penstock.dsl.table_table_join import join_tables
from penstock.dsl.typevars import KO, VO, VR, K, V


class TableJoinOperators(TableBase[K, V]):
    """join, left_join and outer_join."""

    @overload
    def join(
        self,
        other: ktable.KTable[K, VO],
        joiner: Callable[[V, VO], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: ktable.KTable[KO, VO],
        joiner: Callable[[V, VO], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        foreign_key: Callable[[V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> ktable.KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: ktable.KTable[KO, VO],
        joiner: Callable[[V, VO], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        foreign_key: Callable[[K, V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[True],
        name: str | None = None,
    ) -> ktable.KTable[K, VR]: ...

    def join(
        self,
        other: ktable.KTable[Any, Any],
        joiner: Callable[..., Any],
        materialized: Materialized[Any, Any] | None = None,
        *,
        foreign_key: Callable[..., Any] | None = None,
        table_joined: TableJoined[Any, Any] | None = None,
        with_key: bool = False,
        name: str | None = None,
    ) -> ktable.KTable[Any, Any]:
        """Join each row with the row of the other table under the same key, or under a foreign key in its value.

        Both sides may change, and each change gives a new result; where one side has no row there is no result. With
        `foreign_key=lambda value: …` the other table may be partitioned in its own way; rows of this table without a
        foreign key give no result. `with_key=True` gives that function the key first.
        """
        return self._join(other, joiner, materialized, foreign_key, table_joined, with_key, name, left_outer=False)

    @overload
    def left_join(
        self,
        other: ktable.KTable[K, VO],
        joiner: Callable[[V, VO | None], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: ktable.KTable[KO, VO],
        joiner: Callable[[V, VO | None], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        foreign_key: Callable[[V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> ktable.KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: ktable.KTable[KO, VO],
        joiner: Callable[[V, VO | None], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        foreign_key: Callable[[K, V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[True],
        name: str | None = None,
    ) -> ktable.KTable[K, VR]: ...

    def left_join(
        self,
        other: ktable.KTable[Any, Any],
        joiner: Callable[..., Any],
        materialized: Materialized[Any, Any] | None = None,
        *,
        foreign_key: Callable[..., Any] | None = None,
        table_joined: TableJoined[Any, Any] | None = None,
        with_key: bool = False,
        name: str | None = None,
    ) -> ktable.KTable[Any, Any]:
        """Like `join`, but a row of this table without a match is joined with None."""
        return self._join(other, joiner, materialized, foreign_key, table_joined, with_key, name, left_outer=True)

    def outer_join(
        self,
        other: ktable.KTable[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[K, VR]:
        """Like `left_join`, but rows of either table without a match are joined with None."""
        return join_tables(self, _table(other), joiner_with_key(joiner, False), name, materialized, True, True)

    def _join(
        self,
        other: ktable.KTable[Any, Any],
        joiner: Callable[..., Any],
        materialized: Materialized[Any, Any] | None,
        foreign_key: Callable[..., Any] | None,
        table_joined: TableJoined[Any, Any] | None,
        with_key: bool,
        name: str | None,
        left_outer: bool,
    ) -> ktable.KTable[Any, Any]:
        join_values = joiner_with_key(joiner, False)
        if foreign_key is None:
            if table_joined is not None or with_key:
                raise TypeError("table_joined and with_key are for joins on a foreign key: give foreign_key= as well")
            return join_tables(self, _table(other), join_values, name, materialized, left_outer, False)
        required(foreign_key, "foreign_key")
        extractor = value_mapper_with_key(foreign_key, with_key)
        options = renamed(table_joined or TableJoined(), name)
        return join_on_foreign_key(
            self, _table(other), extractor, join_values, options, materialized or Materialized(), left_outer
        )


def _table(other: Any) -> ktable.KTable[Any, Any]:
    if not isinstance(other, ktable.KTable):
        raise TypeError(f"a table joins with a KTable, not with {other!r}")
    return other
