"""The joins of a table: with another table by key, or by a foreign key in the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from penstock.dsl import ktable
from penstock.dsl.abstract_stream import joiner_with_key, value_mapper_with_key
from penstock.dsl.arguments import option
from penstock.dsl.foreign_key_join import join_on_foreign_key
from penstock.dsl.ktable_base import TableBase
from penstock.dsl.options import Materialized, TableJoined, as_materialized, renamed
from penstock.dsl.table_table_join import join_tables
from penstock.dsl.typevars import KO, VO, VR, K, V
from penstock.serdes.arguments import is_serde
from penstock.user_code import misuse


class TableJoinOperators(TableBase[K, V]):
    """join, left_join and outer_join."""

    @overload
    def join(
        self,
        other: ktable.KTable[K, VO],
        joiner: Callable[[V, VO], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: ktable.KTable[KO, VO],
        joiner: Callable[[V, VO], VR],
        materialized: Materialized[K, VR] | str | None = None,
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
        materialized: Materialized[K, VR] | str | None = None,
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
        materialized: Materialized[Any, Any] | str | None = None,
        *java_order: Any,
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
        _refuse_java_order(materialized, java_order)
        return self._join(other, joiner, materialized, foreign_key, table_joined, with_key, name, left_outer=False)

    @overload
    def left_join(
        self,
        other: ktable.KTable[K, VO],
        joiner: Callable[[V, VO | None], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: ktable.KTable[KO, VO],
        joiner: Callable[[V, VO | None], VR],
        materialized: Materialized[K, VR] | str | None = None,
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
        materialized: Materialized[K, VR] | str | None = None,
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
        materialized: Materialized[Any, Any] | str | None = None,
        *java_order: Any,
        foreign_key: Callable[..., Any] | None = None,
        table_joined: TableJoined[Any, Any] | None = None,
        with_key: bool = False,
        name: str | None = None,
    ) -> ktable.KTable[Any, Any]:
        """Like `join`, but a row of this table without a match is joined with None."""
        _refuse_java_order(materialized, java_order)
        return self._join(other, joiner, materialized, foreign_key, table_joined, with_key, name, left_outer=True)

    def outer_join(
        self,
        other: ktable.KTable[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[K, VR]:
        """Like `left_join`, but rows of either table without a match are joined with None."""
        return join_tables(self, _table(other), joiner_with_key(joiner, False), name, materialized, True, True)

    def _join(
        self,
        other: ktable.KTable[Any, Any],
        joiner: Callable[..., Any],
        materialized: Materialized[Any, Any] | str | None,
        foreign_key: Callable[..., Any] | None,
        table_joined: TableJoined[Any, Any] | None,
        with_key: bool,
        name: str | None,
        left_outer: bool,
    ) -> ktable.KTable[Any, Any]:
        join_values = joiner_with_key(joiner, False)
        if foreign_key is None:
            if table_joined is not None or with_key:
                raise misuse("table_joined and with_key are for joins on a foreign key: give foreign_key= as well")
            return join_tables(self, _table(other), join_values, name, materialized, left_outer, False)
        extractor = value_mapper_with_key(foreign_key, with_key, "foreign_key")
        options = renamed(option(TableJoined, table_joined) or TableJoined(), name)
        return join_on_foreign_key(
            self, _table(other), extractor, join_values, options, as_materialized(materialized) or Materialized(), left_outer
        )


def _refuse_java_order(materialized: Any, java_order: tuple[Any, ...]) -> None:
    """In Java the function that gives the foreign key comes before the joiner."""
    if java_order or (callable(materialized) and not is_serde(materialized)) or isinstance(materialized, TableJoined):
        raise misuse(
            "a join on a foreign key is written join(other, joiner, foreign_key=lambda value: …, table_joined=TableJoined(…), "
            "materialized=Materialized(…)): the joiner comes second, all else by name"
        )


def _table(other: Any) -> ktable.KTable[Any, Any]:
    if not isinstance(other, ktable.KTable):
        raise misuse(f"a table joins with a KTable, not with {other!r}")
    return other
