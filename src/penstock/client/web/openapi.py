"""The OpenAPI description of the query server."""

from __future__ import annotations

from typing import Any

from penstock.client.web.answers import DEFAULT_LIMIT, MAX_ANSWER_BYTES, MAX_LIMIT


def openapi() -> dict[str, Any]:
    """Return the description."""
    store = _parameter("store", "path", "The name of a store.", {"type": "string"})
    key = _parameter("key", "path", "A key: its text for string serdes, URL-encoded JSON otherwise.", {"type": "string"})
    limit = _parameter(
        "limit",
        "query",
        f"How many entries at most. A page ends earlier, with `next`, before its entries take {MAX_ANSWER_BYTES} bytes.",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    )
    stale = _parameter(
        "stale",
        "query",
        "Where the key's task cannot be read now, answer from a copy, which may be behind; the answer then says `stale`.",
        {"type": "boolean", "default": False},
    )
    times = [_parameter(name, "query", "Milliseconds since the epoch, included.", {"type": "integer"}) for name in ("from", "to")]
    keys = [_parameter(name, "query", "A key, included; left out: open.", {"type": "string"}) for name in ("from", "to")]
    any_value: dict[str, Any] = {}
    number = {"type": "integer"}
    entry = {"type": "object", "properties": {"key": any_value, "value": any_value, "timestamp": {"type": "integer"}}}
    window = {
        "type": "object",
        "properties": {"key": any_value, "start": {"type": "integer"}, "end": {"type": "integer"}, "value": any_value},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "penstock query server", "version": "1"},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
        "paths": {
            "/api/app": _get("The application: state, threads, tasks, topology, rates", [], {"type": "object"}),
            "/api/stores": _get("All stores", [], _object(stores=_list({"type": "object"}))),
            "/api/stores/{store}": _get(
                "A store: its columns as a table, and the instances that have its partitions, in their order",
                [store],
                _object(
                    name={"type": "string"},
                    kind={"type": "string"},
                    partitions={"type": "integer"},
                    active=_list({"type": ["string", "null"]}),
                    columns=_list(_object(name={"type": "string"}, type={"type": "string"})),
                    key_format={"type": ["string", "null"]},
                    **{"global": {"type": "boolean"}},
                ),
            ),
            "/api/stores/{store}/keys/{key}": _get(
                "The value of a key",
                [store, key, stale, _parameter("as_of", "query", "Versioned stores: valid at this time.", {"type": "integer"})],
                _object(
                    key=any_value,
                    value=any_value,
                    timestamp={"type": ["integer", "null"]},
                    partition={"type": ["integer", "null"]},
                    host={"type": "string"},
                ),
            ),
            "/api/stores/{store}/range": _get(
                "Entries in the order of the keys' bytes; `next` is the key to go on `from`",
                [store, *keys, limit],
                _object(entries=_list(entry), next=any_value),
            ),
            "/api/stores/{store}/windows/{key}": _get(
                "Windows or sessions of a key, oldest first; `next` is the time to go on `from`",
                [store, key, stale, *times, limit],
                _object(entries=_list(window), next={"type": ["integer", "null"]}),
            ),
            "/api/stores/{store}/metadata/{key}": _get(
                "Where a key is",
                [store, key],
                _object(partition={"type": "integer"}, active={"type": "string"}, standbys=_list({"type": "string"})),
            ),
            "/api/stores/{store}/table": _get(
                "What this instance has of a store, as an Arrow stream",
                [
                    store,
                    _parameter("partition", "query", "One partition only.", {"type": "integer"}),
                    _parameter("columns", "query", "Names of columns, with commas.", {"type": "string"}),
                    _parameter(
                        "read", "query", "JSON: `keys`, `low` and `high`, `start_low` and `start_high`.", {"type": "string"}
                    ),
                ],
                {"type": "string", "format": "binary"},
                "application/vnd.apache.arrow.stream",
            ),
            "/api/stores/{store}/changes": _get(
                "A page of the changes of a store with a time in a range, as an Arrow stream; its schema says where to go on",
                [
                    store,
                    _parameter("partition", "query", "The partition.", {"type": "integer"}),
                    *times,
                    _parameter("offset", "query", "Where the page begins, as the last one has said.", {"type": "integer"}),
                    _parameter("end", "query", "Where the last page ends, as the first one has said.", {"type": "integer"}),
                ],
                {"type": "string", "format": "binary"},
                "application/vnd.apache.arrow.stream",
            ),
            "/api/stores/{store}/windows": _get(
                "Windows or sessions of all keys in the partitions that are here, oldest first; `next` is where to go on `from`",
                [store, *times, limit],
                _object(entries=_list(window), next={"type": ["integer", "null"]}, here=number, partitions=number),
            ),
            "/api/dead-letters": _get(
                "The last dead letters, with where they came from, key, value, headers and traceback",
                [_parameter("topic", "query", "One dead letter topic only.", {"type": "string"})],
                _object(topics=_list({"type": "string"}), missing=_list({"type": "string"}), letters=_list({}), most=number),
            ),
            "/api/dead-letters/replay": _post(
                "Write the record of a dead letter to the partition it came from once more; with the token only",
                {
                    **_object(topic={"type": "string"}, partition=number, offset=number),
                    "description": "Where the letter lies; `again` allows a second time.",
                },
                _object(topic={"type": "string"}, partition=number, replayed=number),
            ),
            "/api/topics": _get("The topics of the application", [], _object(topics=_list({"type": "object"}))),
            "/api/topics/{topic}/latest": _get(
                "The latest records of a topic of the application, read with its serdes, newest first",
                [
                    _parameter("topic", "path", "The name of a topic of the topology.", {"type": "string"}),
                    _parameter("limit", "query", "How many records at most.", {"type": "integer", "minimum": 1, "maximum": 100}),
                ],
                _object(topic={"type": "string"}, kind={"type": "string"}, records=_list({"type": "object"})),
            ),
            "/api/pause": _post(
                "Pause this instance: it processes nothing until it is resumed; with the token only",
                _object(),
                _object(paused={"type": "boolean"}),
            ),
            "/api/resume": _post(
                "Resume this instance after a pause; with the token only", _object(), _object(paused={"type": "boolean"})
            ),
            "/api/settings": _get("The settings, secrets hidden", [], _object(settings=_list({"type": "object"}))),
            "/api/events": _get(
                "What the page shows, as server-sent events: `whole`, then `change`, each with a JSON merge patch",
                [],
                {"type": "string"},
                "text/event-stream",
            ),
            "/metrics": _get("Metrics as Prometheus text", [], {"type": "string"}, "text/plain"),
        },
    }


def _get(
    summary: str,
    parameters: list[dict[str, Any]],
    schema: dict[str, Any],
    media_type: str = "application/json",
) -> dict[str, Any]:
    error = {"content": {"application/json": {"schema": _object(error={"type": "string"})}}}
    reasons = {
        "400": "A bad key or range",
        "401": "No token, or a wrong one",
        "403": "A page of another site asks; or, without a token, another host",
        "404": "No such store or partition, or no such key in any partition",
        "405": "Not a GET",
        "413": "A query has no body",
        "414": "The address is too long",
        "502": "Another instance, which has the key, gave no answer that can be passed on",
        "503": "Not available now, or not all of it; ask again later",
    }
    responses: dict[str, Any] = {"200": {"description": summary, "content": {media_type: {"schema": schema}}}}
    responses |= {status: {"description": reason, **error} for status, reason in reasons.items()}
    return {"get": {"summary": summary, "parameters": parameters, "responses": responses}}


def _post(summary: str, body: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = _get(summary, [], schema)["get"]
    found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    error = {"content": {"application/json": {"schema": _object(error={"type": "string"})}}}
    reasons = {
        "403": "A page of another site asks; or no token is set, without which nothing can be changed",
        "405": "Not a POST",
        "409": "It was replayed already",
        "413": "The body is too large",
        "415": "Not application/json",
    }
    found["responses"] |= {status: {"description": reason, **error} for status, reason in reasons.items()}
    return {"post": found}


def _parameter(name: str, where: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "description": description, "schema": schema}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}
