"""Find where two answers differ, and say it so that a person sees what happened."""

from __future__ import annotations

import difflib
import json
import struct
from typing import Any

from tests.conformance.inputs import Input

# What a dead letter says of the exception is in the words of its language.
_LANGUAGE_HEADERS = tuple(f"__streams.errors.{name}" for name in ("exception", "message", "stacktrace"))


def difference(java: dict[str, Any], python: dict[str, Any], inputs: list[Input]) -> str | None:
    """The first difference between the original's answer and ours; None where there is none."""
    return (
        _of_errors(java.get("error"), python.get("error"))
        or _of_describe(java.get("describe"), python.get("describe"))
        or _of_steps(java["steps"], python["steps"], inputs)
        or _of_printed(java.get("printed"), python.get("printed"))
        or _of_stores(java.get("stores") or {}, python.get("stores") or {})
        or _of_dropped(java.get("dropped"), python.get("dropped"))
    )


def _of_errors(java: dict[str, Any] | None, python: dict[str, Any] | None) -> str | None:
    if java is None and python is None:
        return None
    if java is None or python is None:
        return f"only one side failed\n  java:   {_error(java)}\n  python: {_error(python)}"
    # Exceptions of the library have the same name here, with Error for Exception; the user's own are the language's.
    expected = java["class"].replace("Exception", "Error")
    known = expected in ("StreamsError", "TopologyError", "ConfigError")
    if java["stage"] != python["stage"] or (known and expected not in python["classes"]):
        return f"the errors differ\n  java:   {_error(java)}\n  python: {_error(python)}"
    return None


def _error(error: dict[str, Any] | None) -> str:
    return (
        "no error" if error is None else f"{error['class']} in {error['stage']}: {error['message'][:500]} ({error['root'][:300]})"
    )


def _of_describe(java: str | None, python: str | None) -> str | None:
    if java == python:
        return None
    lines = difflib.unified_diff((java or "").splitlines(), (python or "").splitlines(), "java", "python", lineterm="", n=50)
    return "the descriptions differ\n" + "\n".join(lines)


def _of_steps(java: list[Any], python: list[Any], inputs: list[Input]) -> str | None:
    for index, item in enumerate(inputs):
        ours = _by_topic(python[index]) if index < len(python) else {}
        theirs = _by_topic(java[index]) if index < len(java) else {}
        for topic in sorted({*ours, *theirs}):
            one, two = theirs.get(topic, []), ours.get(topic, [])
            for expected, found in zip(one, two, strict=False):
                # For changelogs of buffers the original leaves the time to the producer.
                if expected["timestamp"] is None:
                    found["timestamp"] = None
            if one != two:
                shown = "\n".join(
                    [f"  java    {line}" for line in map(show_record, one)]
                    + [f"  python  {line}" for line in map(show_record, two)]
                )
                return f"after input {index} ({show_input(item)}) topic {topic} differs\n{shown or '  (nothing)'}"
    return None


def _by_topic(step: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for record in step:
        compared = {name: record[name] for name in ("partition", "key", "value", "timestamp")}
        compared["headers"] = [[key, "..." if key in _LANGUAGE_HEADERS else value] for key, value in record["headers"]]
        topics.setdefault(record["topic"], []).append(compared)
    return topics


def _of_printed(java: str | None, python: str | None) -> str | None:
    if (java or "") == (python or ""):
        return None
    return f"the printed texts differ\n  java:   {java!r}\n  python: {python!r}"


def _of_stores(java: dict[str, Any], python: dict[str, Any]) -> str | None:
    for name in sorted({*java, *python}):
        one, two = java.get(name), python.get(name)
        if one != two:
            entries = [json.dumps(entry, ensure_ascii=False) for entry in (one or {}).get("entries", [])]
            others = [json.dumps(entry, ensure_ascii=False) for entry in (two or {}).get("entries", [])]
            lines = difflib.unified_diff(entries, others, "java", "python", lineterm="", n=2)
            return f"the store {name} ({(one or two or {}).get('kind')}) differs\n" + "\n".join(lines)
    return None


def _of_dropped(java: int | None, python: int | None) -> str | None:
    return None if java == python else f"dropped records differ: java {java}, python {python}"


def show_record(record: dict[str, Any]) -> str:
    headers = ", ".join(f"{key}={decoded(value)}" for key, value in record["headers"])
    where = f" to partition {record['partition']}" if record.get("partition") is not None else ""
    what = f"{decoded(record['key'])} = {decoded(record['value'])} @{record['timestamp']}"
    return what + (f" [{headers}]" if headers else "") + where


def show_input(item: Input) -> str:
    if "cut" in item:
        return "end of the turn"
    if "advance_wall_clock" in item:
        return f"wall clock +{item['advance_wall_clock']}"
    return f"{item['topic']}: {show_record(item)}"


def decoded(value: str | None) -> str:
    """Bytes in the most readable form they allow: text, a number, text with a time behind or before it, hex."""
    if value is None:
        return "null"
    if value == "...":
        return value
    data = bytes.fromhex(value)
    if data.isascii() and data.decode().isprintable():
        return repr(data.decode())
    if len(data) == 8:
        return f"long({struct.unpack('>q', data)[0]})"
    if len(data) > 8:
        for label, time, rest in (("stamped", data[:8], data[8:]), ("windowed", data[-8:], data[:-8])):
            number = struct.unpack(">q", time)[0]
            if 0 <= number < 2**40:
                return f"{label}({decoded(rest.hex())}, {number})"
    return f"hex({value})"
