"""Queries to custom stores and their results as plain data, which the driver and the workers exchange.

A query is sent as the name of its class and its fields. The worker knows the class, because the store that answers came with it.
It makes the query without running the constructor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.errors import InvalidStateStoreError
from penstock.query.queries import Query
from penstock.query.result import FailureReason, QueryResult


def encode_query(query: Query[Any]) -> tuple[str, str, dict[str, Any]]:
    """Return a query as plain data; its fields have to be plain data.

    >>> from penstock.query.queries import KeyQuery
    >>> encode_query(KeyQuery("alice"))
    ('penstock.query.queries', 'KeyQuery', {'key': 'alice', 'is_skip_cache': False})
    """
    kind = type(query)
    fields = (
        {field.name: getattr(query, field.name) for field in dataclasses.fields(query)}
        if dataclasses.is_dataclass(query)
        else dict(vars(query))
    )
    return kind.__module__, kind.__qualname__, fields


def decode_query(encoded: Any) -> Query[Any]:
    """Return the query that `encode_query` encoded; its class has to be known in this process.

    >>> from penstock.query.queries import KeyQuery
    >>> decode_query(encode_query(KeyQuery("alice")))
    KeyQuery(key='alice', is_skip_cache=False)
    """
    module, name, fields = encoded
    if not isinstance(fields, Mapping) or not all(isinstance(field, str) for field in fields):
        raise InvalidStateStoreError("a query was received without its fields")
    for known in _kinds(Query):
        if known.__module__ == module and known.__qualname__ == name:
            query: Query[Any] = object.__new__(known)
            for field, value in fields.items():
                object.__setattr__(query, field, value)
            return query
    raise InvalidStateStoreError(
        f"the query {module}.{name} is not known where the store is: the store's query(), or its module, has to name the class"
    )


def encode_result(result: QueryResult[Any]) -> tuple[Any, ...]:
    """Return a result as plain data; an iterator becomes a list."""
    info = list(result.execution_info)
    if result.is_failure:
        return "failure", result.failure_reason.name, result.failure_message, info
    found = result.result
    return "result", list(found) if isinstance(found, Iterator) else found, None, info


def decode_result(encoded: Any) -> QueryResult[Any]:
    """Return the result that `encode_result` encoded."""
    kind, found, message, info = encoded
    result: QueryResult[Any] = (
        QueryResult.for_result(found) if kind == "result" else QueryResult.for_failure(FailureReason[found], str(message))
    )
    for line in info:
        result.add_execution_info(str(line))
    return result


def _kinds(kind: type[Any]) -> Iterator[type[Any]]:
    for known in reversed(kind.__subclasses__()):  # of two classes of one name the later: the earlier one was sent before
        yield known
        yield from _kinds(known)
