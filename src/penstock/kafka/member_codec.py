"""What travels in the group protocol as bytes. Whatever comes in may be anybody's: all of it is bounded and checked.

A frame that stays as it is tells the versions a side understands and carries a proof; the body is compressed JSON. Fields may be
added to a body: those that are not known are ignored.

    member:      "PM"  lowest version  highest version  proof (32)  zlib(JSON)
    assignment:  "PA"  version  proof (32)  size  JSON of the member's own part  zlib(JSON of the map for all)

The map has the processes once, with their hosts, and then for each sub-topology the numbers of the processes that have its
partitions: for 100 instances and 1,000 partitions with standbys 5.4 KB for each member, where names took 36 KB.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.ids import TaskId
from penstock.kafka.members import Decision, MemberInfo, Shares
from penstock.peers.addresses import MAX_ADDRESS, advertised
from penstock.peers.proofs import PROOF_BYTES
from penstock.printable import printable

LOWEST, HIGHEST = 2, 2
"""The versions that this release speaks where members name theirs."""

MAX_BYTES = 1 << 20
MAX_JSON = 4 << 20
MAX_TASKS = 100_000
MAX_PROCESSES = 10_000
NO_PROOF = bytes(PROOF_BYTES)

_MEMBER = struct.Struct(f">2sBB{PROOF_BYTES}s")
_ASSIGNMENT = struct.Struct(f">2sB{PROOF_BYTES}sI")
_MAX_TEXT = 200
_MAX_CAPACITY = 10_000
_MAX_NUMBER = 1 << 63


class MalformedError(ValueError):
    """Bytes that no member of this application has written."""


# -- frames ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemberFrame:
    """What a member tells, before any of it is looked at."""

    lowest: int
    highest: int
    proof: bytes
    body: bytes

    def encode(self) -> bytes:
        """As bytes."""
        return _MEMBER.pack(b"PM", self.lowest, self.highest, self.proof) + self.body

    @classmethod
    def decode(cls, raw: bytes) -> MemberFrame:
        """From bytes."""
        magic, lowest, highest, proof = _unpack(_MEMBER, raw)
        if magic != b"PM" or not 0 < lowest <= highest:
            raise MalformedError("it does not begin as what a member tells")
        return cls(lowest, highest, proof, raw[_MEMBER.size :])


@dataclass(frozen=True)
class AssignmentFrame:
    """What the leader tells a member, before any of it is looked at."""

    version: int
    proof: bytes
    own: bytes
    shared: bytes

    def encode(self) -> bytes:
        """As bytes."""
        return _ASSIGNMENT.pack(b"PA", self.version, self.proof, len(self.own)) + self.own + self.shared

    @classmethod
    def decode(cls, raw: bytes) -> AssignmentFrame:
        """From bytes."""
        magic, version, proof, size = _unpack(_ASSIGNMENT, raw)
        end = _ASSIGNMENT.size + size
        if magic != b"PA" or end > len(raw):
            raise MalformedError("it does not begin as what a leader tells")
        return cls(version, proof, raw[_ASSIGNMENT.size : end], raw[end:])


def _unpack(frame: struct.Struct, raw: bytes) -> tuple[Any, ...]:
    if len(raw) > MAX_BYTES:
        raise MalformedError(f"{len(raw)} bytes are too many")
    if len(raw) < frame.size:
        raise MalformedError(f"{len(raw)} bytes are too few")
    return frame.unpack_from(raw)


# -- members -----------------------------------------------------------------------------------------------------------


def encode_member(info: MemberInfo, generation: int, run: str) -> bytes:
    """The body of what a member tells; `generation` is the last it was part of, or -1, `run` something of its own."""
    return _compressed(
        {
            "process_id": info.process_id,
            "capacity": info.capacity,
            "host": info.host,
            "active": [str(task) for task in info.active],
            "standby": [str(task) for task in info.standby],
            "offsets": {str(task): offset for task, offset in info.offsets.items()},
            "tags": dict(info.tags),
            "error_code": info.error_code,
            "generation": generation,
            "run": run,
            "transport": "topic",  # has a leader of the previous release send repartitions through their topics
        }
    )


def decode_member(body: bytes) -> tuple[MemberInfo, int, str]:
    """What a member told, the last generation it was part of, and its run."""
    told = _json(_decompressed(body))
    return _member(told), _number(told, "generation", -1, 1 << 31, -1), _text(told.get("run", ""), "run")


def _member(told: Mapping[str, Any]) -> MemberInfo:
    process_id = _text(told.get("process_id"), "process_id")
    if not process_id:
        raise MalformedError("process_id is empty")
    return MemberInfo(
        process_id,
        _number(told, "capacity", 0, _MAX_CAPACITY, 1),
        _host(told.get("host", "")),
        _tasks(told.get("active", []), "active"),
        _tasks(told.get("standby", []), "standby"),
        {
            task: _whole(offset, "offsets", -_MAX_NUMBER, _MAX_NUMBER)
            for name, offset in _mapping(told.get("offsets", {}), "offsets").items()
            if (task := _task(name, "offsets")) is not None
        },
        {_text(key, "tags"): _text(value, "tags") for key, value in _mapping(told.get("tags", {}), "tags").items()},
        _number(told, "error_code", 0, 1_000, 0),
    )


# -- assignments -------------------------------------------------------------------------------------------------------


def encode_shared(processes: Sequence[tuple[str, str]], shares: Shares, error_code: int) -> bytes:
    """The map for all members: processes with their hosts, and who has what."""
    numbers = {process: number for number, (process, _) in enumerate(processes)}
    active = {task: numbers[process] for process, tasks in shares.active.items() if process in numbers for task in tasks}
    copies: dict[TaskId, list[int]] = {}
    for process, tasks in shares.copies.items():
        for task in tasks if process in numbers else ():
            copies.setdefault(task, []).append(numbers[process])
    layers = [{task: held[depth] for task, held in copies.items() if len(held) > depth} for depth in range(_most(copies))]
    return _compressed(
        {
            "processes": [list(entry) for entry in processes],
            "active": _layer(active),
            "copies": [_layer(layer) for layer in layers],
            "probing": shares.probing,
            "error_code": error_code,
            "shuffled": [],  # has members of the previous release send repartitions through their topics
        }
    )


def encode_own(process: int, is_double: bool) -> bytes:
    """The part of one member: the number of its process in the map."""
    return json.dumps({"process": process, "double": is_double}).encode()


def decode_decision(own: bytes, shared: bytes) -> Decision:
    """What the leader decided, for the member whose own part this is."""
    told, mine = _json(_decompressed(shared)), _json(own)
    processes = _list(told.get("processes", []), "processes", MAX_PROCESSES)
    pairs = [_list(entry, "processes", 100) for entry in processes]
    if any(len(pair) < 2 for pair in pairs):
        raise MalformedError("a process has no host")
    names = [_text(pair[0], "processes") for pair in pairs]
    hosts = {name: _host(pair[1]) for name, pair in zip(names, pairs, strict=True)}
    if len(hosts) != len(names):
        raise MalformedError("a process is there twice")
    number = _number(mine, "process", -1, len(names) - 1, -1)
    active = _read_layer(told.get("active", {}), len(names), own=number)
    layers = [_read_layer(layer, len(names)) for layer in _list(told.get("copies", []), "copies", 100)]
    return Decision(
        tuple(task for task, process in active.items() if process == number),
        tuple(dict.fromkeys(task for layer in layers for task, process in layer.items() if process == number)),
        {task: names[process] for task, process in active.items()},
        _standbys(layers, names),
        hosts,
        _flag(told, "probing"),
        _number(told, "error_code", 0, 1_000, 0),
        _flag(mine, "double"),
    )


def _most(copies: Mapping[TaskId, Sequence[int]]) -> int:
    return max((len(held) for held in copies.values()), default=0)


def _layer(held: Mapping[TaskId, int]) -> dict[str, Any]:
    """The process of each task: a list for each sub-topology, or an entry for each task where most would be empty."""
    found: dict[str, Any] = {}
    by_subtopology: dict[int, dict[int, int]] = {}
    for task, process in held.items():
        by_subtopology.setdefault(task.subtopology, {})[task.partition] = process
    for subtopology, partitions in by_subtopology.items():
        if max(partitions) < 4 * len(partitions) + 16:
            found[str(subtopology)] = [partitions.get(partition, -1) for partition in range(max(partitions) + 1)]
        else:
            found |= {f"{subtopology}_{partition}": process for partition, process in partitions.items()}
    return found


def _read_layer(told: Any, processes: int, own: int = -1) -> dict[TaskId, int]:
    """The process of each task.

    Names that are no task, such as `p0` of the previous release, are ignored unless they are given to process `own`.
    """
    found: dict[TaskId, int] = {}
    for name, value in _mapping(told, "active and copies").items():
        is_list = isinstance(value, list)
        given = enumerate(_list(value, "active and copies", MAX_TASKS)) if is_list else [("", value)]
        for partition, process in given:
            if _whole(process, "active and copies", -1 if is_list else 0, processes - 1) < 0:
                continue
            text = f"{name}_{partition}" if is_list else name
            task = _task(text, "active and copies")
            if task is not None:
                found[task] = process
            elif process == own:
                raise MalformedError(f"{text} is given to this member and is no task")
        if len(found) > MAX_TASKS:
            raise MalformedError(f"there are more than {MAX_TASKS} tasks")
    return found


def _standbys(layers: Iterable[Mapping[TaskId, int]], names: Sequence[str]) -> dict[TaskId, tuple[str, ...]]:
    found: dict[TaskId, tuple[str, ...]] = {}
    for layer in layers:
        for task, process in layer.items():
            found[task] = (*found.get(task, ()), names[process])
    return found


# -- what is read is what was meant ------------------------------------------------------------------------------------


def _compressed(told: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(told, separators=(",", ":")).encode(), 9)


def _decompressed(raw: bytes) -> bytes:
    decompress = zlib.decompressobj()
    try:
        found = decompress.decompress(raw, MAX_JSON)
    except zlib.error as exc:
        raise MalformedError(f"it cannot be decompressed: {exc}") from exc
    if not decompress.eof or decompress.unused_data:
        raise MalformedError(f"it is cut short, too long, or more than {MAX_JSON} bytes")
    return found


def _json(raw: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> Any:
        raise MalformedError(f"{constant} is not JSON")

    try:
        found = json.loads(raw.decode(), parse_constant=refuse)
    except (ValueError, RecursionError) as exc:
        raise MalformedError(f"it is not JSON: {exc}"[:200]) from exc
    if not isinstance(found, dict):
        raise MalformedError("it is not a JSON object")
    return found


def _text(value: Any, what: str) -> str:
    # What cannot be printed would be a hazard for logs and terminals; lone surrogates are among it.
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not value.isprintable():
        raise MalformedError(f"{what} has something else than a short text")
    return value


def _host(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_ADDRESS:
        raise MalformedError("host is not an address")
    if value:
        try:
            advertised(value)
        except ValueError as exc:
            raise MalformedError(f"host is not an address that can be reached: {printable(str(exc))}") from exc
    return value


def _whole(value: Any, what: str, lowest: int, highest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise MalformedError(f"{what} has something else than a whole number from {lowest} to {highest}")
    return value


def _number(told: Mapping[str, Any], name: str, lowest: int, highest: int, default: int) -> int:
    return _whole(told.get(name, default), name, lowest, highest)


def _flag(told: Mapping[str, Any], name: str) -> bool:
    value = told.get(name, False)
    if not isinstance(value, bool):
        raise MalformedError(f"{name} is neither true nor false")
    return value


def _list(value: Any, what: str, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise MalformedError(f"{what} is not a list of at most {most} entries")
    return value


def _task(value: Any, what: str) -> TaskId | None:
    """A task; None for a text that is none, such as `p0` of the previous release."""
    try:
        return TaskId.parse(_text(value, what))
    except MalformedError:
        raise
    except ValueError:
        return None


def _tasks(value: Any, what: str) -> tuple[TaskId, ...]:
    found = (_task(task, what) for task in _list(value, what, MAX_TASKS))
    return tuple(task for task in found if task is not None)


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > MAX_TASKS:
        raise MalformedError(f"{what} is not an object of at most {MAX_TASKS} entries")
    return value
