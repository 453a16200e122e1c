"""Queries and answers of stores of the user's own, as plain data: what the driver asks a lane, and what the lane tells.

A query is told by the name of its class and its fields. The lane makes it again of a class that it knows already, because the
store that answers came with it, and without running its constructor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.errors import InvalidStateStoreError
from penstock.query.position import Position, PositionBound
from penstock.query.queries import Query
from penstock.query.result import FailureReason, QueryConfig, QueryResult
from penstock.state.capabilities import innermost
from penstock.state.store import StateStore


def tell_query(query: Query[Any]) -> tuple[str, str, dict[str, Any]]:
    """A query as plain data, if its fields are.

    >>> from penstock.query.queries import KeyQuery
    >>> tell_query(KeyQuery("alice"))
    ('penstock.query.queries', 'KeyQuery', {'key': 'alice', 'is_skip_cache': False})
    """
    kind = type(query)
    fields = (
        {field.name: getattr(query, field.name) for field in dataclasses.fields(query)}
        if dataclasses.is_dataclass(query)
        else dict(vars(query))
    )
    return kind.__module__, kind.__qualname__, fields


def query_of(told: Any) -> Query[Any]:
    """What `tell_query` told, of a class that this process knows.

    >>> from penstock.query.queries import KeyQuery
    >>> query_of(tell_query(KeyQuery("alice")))
    KeyQuery(key='alice', is_skip_cache=False)
    """
    module, name, fields = told
    if not isinstance(fields, Mapping) or not all(isinstance(field, str) for field in fields):
        raise InvalidStateStoreError("a query was told without its fields")
    for known in _kinds(Query):
        if known.__module__ == module and known.__qualname__ == name:
            query: Query[Any] = object.__new__(known)
            for field, value in fields.items():
                object.__setattr__(query, field, value)
            return query
    raise InvalidStateStoreError(
        f"the query {module}.{name} is not known where the store is: the store's query(), or its module, has to name the class"
    )


def answer_of_store(store: Any, told: Any, bound: str, collect_execution_info: bool) -> tuple[Any, ...] | None:
    """The answer of a store of one's own as plain data; None if there is none, because no class of the user's has a `query`.

    An iterator is sent as a list.
    """
    answers = getattr(store, "query", None)
    engine = innermost(store) if isinstance(store, StateStore) else store
    if answers is None or getattr(type(engine), "query", None) is StateStore.query:
        return None
    query = query_of(told)
    result = answers(query, PositionBound.at(Position.from_json(bound)), QueryConfig(collect_execution_info))
    if not isinstance(result, QueryResult):
        raise InvalidStateStoreError(
            f"{type(store).__name__}.query() returned {result!r}: it must return QueryResult.for_result(…) or for_failure(…)"
        )
    info = list(result.execution_info)
    if result.is_failure:
        return "failure", result.failure_reason.name, result.failure_message, info
    found = result.result
    return "result", list(found) if isinstance(found, Iterator) else found, None, info


def result_of(told: Any) -> QueryResult[Any]:
    """What `answer_of_store` told."""
    kind, found, message, info = told
    result: QueryResult[Any] = (
        QueryResult.for_result(found) if kind == "result" else QueryResult.for_failure(FailureReason[found], str(message))
    )
    for line in info:
        result.add_execution_info(str(line))
    return result


def _kinds(kind: type[Any]) -> Iterator[type[Any]]:
    for known in reversed(kind.__subclasses__()):  # of two with one name the later: the other was sent before
        yield known
        yield from _kinds(known)
