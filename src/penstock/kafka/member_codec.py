"""The bytes of the group protocol. The input is not trusted: all of it is bounded and checked.

The fixed frame has the versions and a proof. The body is compressed JSON. Unknown fields are ignored, so fields can be added.

    member:      "PM"  lowest version  highest version  proof (32)  zlib(JSON)
    assignment:  "PA"  version  proof (32)  size  JSON of the member's own part  zlib(JSON of the map for all)

The map lists each process and its host once. For each sub-topology it lists the process numbers of the partitions. With 100
instances and 1,000 partitions with standbys a member gets 5.4 KB; with names it was 36 KB.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from penstock.ids import TaskId
from penstock.kafka.members import Decision, MemberInfo, Shares
from penstock.peers.addresses import MAX_ADDRESS, advertised
from penstock.peers.proofs import PROOF_BYTES
from penstock.printable import printable

LOWEST, HIGHEST = 2, 2
"""The versions of this release."""

MAX_BYTES = 1 << 20
MAX_JSON = 4 << 20
MAX_TASKS = 100_000
MAX_PROCESSES = 10_000
NO_PROOF = bytes(PROOF_BYTES)

_MEMBER = struct.Struct(f">2sBB{PROOF_BYTES}s")
_ASSIGNMENT = struct.Struct(f">2sB{PROOF_BYTES}sI")


class MalformedError(ValueError):
    """Bytes that were not written by a member of this application."""


# -- frames ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemberFrame:
    """The frame of a member's data. Its body is not decoded."""

    lowest: int
    highest: int
    proof: bytes
    body: bytes

    def encode(self) -> bytes:
        return _MEMBER.pack(b"PM", self.lowest, self.highest, self.proof) + self.body

    @classmethod
    def decode(cls, raw: bytes) -> MemberFrame:
        magic, lowest, highest, proof = _unpack(_MEMBER, raw)
        if magic != b"PM" or not 0 < lowest <= highest:
            raise MalformedError("it is not a member's frame")
        return cls(lowest, highest, proof, raw[_MEMBER.size :])


@dataclass(frozen=True)
class AssignmentFrame:
    """The frame of an assignment. Its parts are not decoded."""

    version: int
    proof: bytes
    own: bytes
    shared: bytes

    def encode(self) -> bytes:
        return _ASSIGNMENT.pack(b"PA", self.version, self.proof, len(self.own)) + self.own + self.shared

    @classmethod
    def decode(cls, raw: bytes) -> AssignmentFrame:
        magic, version, proof, size = _unpack(_ASSIGNMENT, raw)
        end = _ASSIGNMENT.size + size
        if magic != b"PA" or end > len(raw):
            raise MalformedError("it is not an assignment's frame")
        return cls(version, proof, raw[_ASSIGNMENT.size : end], raw[end:])


def _unpack(frame: struct.Struct, raw: bytes) -> tuple[Any, ...]:
    if len(raw) > MAX_BYTES:
        raise MalformedError(f"{len(raw)} bytes are too many")
    if len(raw) < frame.size:
        raise MalformedError(f"{len(raw)} bytes are too few")
    return frame.unpack_from(raw)


# -- members -----------------------------------------------------------------------------------------------------------

# Types, lengths and ranges of fields, checked by msgspec. Bodies may have unknown fields.
_Text = Annotated[str, Meta(max_length=200)]
_Host = Annotated[str, Meta(max_length=MAX_ADDRESS)]
_Tasks = Annotated[tuple[_Text, ...], Meta(max_length=MAX_TASKS)]
_ErrorCode = Annotated[int, Meta(ge=0, le=1_000)]


class _Member(msgspec.Struct):
    process_id: Annotated[str, Meta(min_length=1, max_length=200)]
    capacity: Annotated[int, Meta(ge=0, le=10_000)] = 1
    host: _Host = ""
    active: _Tasks = ()
    standby: _Tasks = ()
    offsets: Annotated[dict[_Text, Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]], Meta(max_length=MAX_TASKS)] = {}
    tags: Annotated[dict[_Text, _Text], Meta(max_length=MAX_TASKS)] = {}
    error_code: _ErrorCode = 0
    generation: Annotated[int, Meta(ge=-1, le=1 << 31)] = -1
    run: _Text = ""
    transport: _Text = "topic"
    """Makes a leader of the previous release send repartitions through topics."""


def encode_member(info: MemberInfo, generation: int, run: str) -> bytes:
    """Encode a member's data. `generation` is the last it belonged to, or -1. `run` identifies the process run."""
    active, standby = tuple(map(str, info.active)), tuple(map(str, info.standby))
    offsets = {str(task): offset for task, offset in info.offsets.items()}
    known = info.process_id, info.capacity, info.host, active, standby, offsets, dict(info.tags), info.error_code
    return _compressed(_Member(*known, generation, run))


def decode_member(body: bytes) -> tuple[MemberInfo, int, str]:
    """Return a member's info, its last generation, and its run."""
    told = _read(_Member, _decompressed(body), MAX_JSON)
    _check_texts((told.process_id, told.run), told.active, told.standby, told.offsets, told.tags, told.tags.values())
    _check_hosts([told.host])
    offsets = {task: offset for name, offset in told.offsets.items() if (task := _task(name)) is not None}
    tasks = _tasks(told.active), _tasks(told.standby)
    info = MemberInfo(told.process_id, told.capacity, told.host, *tasks, offsets, told.tags, told.error_code)
    return info, told.generation, told.run


# -- assignments -------------------------------------------------------------------------------------------------------


# Owners: for a sub-topology a list with the process number of each partition (-1: none), for a task its process number.
_Layer = Annotated[dict[_Text, Annotated[list[int], Meta(max_length=MAX_TASKS)] | int], Meta(max_length=MAX_TASKS)]


class _Process(msgspec.Struct, array_like=True):
    name: _Text
    host: _Host


class _Shared(msgspec.Struct):
    processes: Annotated[list[_Process], Meta(max_length=MAX_PROCESSES)] = []
    active: _Layer = {}
    copies: Annotated[list[_Layer], Meta(max_length=100)] = []
    probing: bool = False
    error_code: _ErrorCode = 0
    shuffled: Annotated[list[int], Meta(max_length=MAX_TASKS)] | None = []
    """Makes members of the previous release send repartitions through topics."""


class _Own(msgspec.Struct):
    process: int = -1
    double: bool = False


def encode_shared(processes: Sequence[tuple[str, str]], shares: Shares, error_code: int) -> bytes:
    """Encode the map for all members: processes, hosts and the owners of tasks."""
    numbers = {process: number for number, (process, _) in enumerate(processes)}
    active = {task: numbers[process] for process, tasks in shares.active.items() if process in numbers for task in tasks}
    copies: dict[TaskId, list[int]] = {}
    for process, tasks in shares.copies.items():
        for task in tasks if process in numbers else ():
            copies.setdefault(task, []).append(numbers[process])
    layers = [{task: held[depth] for task, held in copies.items() if len(held) > depth} for depth in range(_most(copies))]
    told = [_Process(*entry) for entry in processes]
    return _compressed(_Shared(told, _layer(active), [_layer(layer) for layer in layers], shares.probing, error_code))


def encode_own(process: int, is_double: bool) -> bytes:
    """Encode one member's part: its process number in the map."""
    return msgspec.json.encode(_Own(process, is_double))


def decode_decision(own: bytes, shared: bytes) -> Decision:
    """Decode the leader's decision for the member with this part."""
    told, mine = _read(_Shared, _decompressed(shared), MAX_JSON), _read(_Own, own)
    names = [process.name for process in told.processes]
    hosts = {process.name: process.host for process in told.processes}
    _check_texts(names)
    _check_hosts(hosts.values())
    if len(hosts) != len(names):
        raise MalformedError("a process is listed twice")
    if not -1 <= mine.process < len(names):
        raise MalformedError(f"its process number {mine.process} is not below {len(names)}")
    active = _read_layer(told.active, len(names), own=mine.process)
    layers = [_read_layer(layer, len(names)) for layer in told.copies]
    return Decision(
        tuple(task for task, process in active.items() if process == mine.process),
        tuple(dict.fromkeys(task for layer in layers for task, process in layer.items() if process == mine.process)),
        {task: names[process] for task, process in active.items()},
        _standbys((task, names[process]) for layer in layers for task, process in layer.items()),
        hosts,
        told.probing,
        told.error_code,
        mine.double,
    )


def _most(copies: Mapping[TaskId, Sequence[int]]) -> int:
    return max((len(held) for held in copies.values()), default=0)


def _layer(held: Mapping[TaskId, int]) -> dict[str, list[int] | int]:
    """Encode the process of each task: one list for a sub-topology, or one entry for each task if the list would be mostly
    empty.
    """
    found: dict[str, list[int] | int] = {}
    by_subtopology: dict[int, dict[int, int]] = {}
    for task, process in held.items():
        by_subtopology.setdefault(task.subtopology, {})[task.partition] = process
    for subtopology, partitions in by_subtopology.items():
        if max(partitions) < 4 * len(partitions) + 16:
            found[str(subtopology)] = [partitions.get(partition, -1) for partition in range(max(partitions) + 1)]
        else:
            found |= {f"{subtopology}_{partition}": process for partition, process in partitions.items()}
    return found


def _read_layer(told: Mapping[str, list[int] | int], processes: int, own: int = -1) -> dict[TaskId, int]:
    """Decode the process of each task.

    Names that are no task, such as `p0` of the previous release, are ignored unless they are assigned to process `own`.
    """
    _check_texts(told)
    found: dict[TaskId, int] = {}
    for name, value in told.items():
        lowest, given = (-1, value) if isinstance(value, list) else (0, [value])
        first = _task(f"{name}_0" if isinstance(value, list) else name)
        for number, process in enumerate(given):
            if not lowest <= process < processes:
                raise MalformedError(f"a task's process number is not below {processes}")
            if process == -1:
                continue
            if first is not None:
                found[TaskId(first.subtopology, first.partition + number)] = process
            elif process == own:
                raise MalformedError(f"{name} is assigned to this member but is no task")
        if len(found) > MAX_TASKS:
            raise MalformedError(f"there are more than {MAX_TASKS} tasks")
    return found


def _standbys(copies: Iterable[tuple[TaskId, str]]) -> dict[TaskId, tuple[str, ...]]:
    found: dict[TaskId, tuple[str, ...]] = {}
    for task, process in copies:
        found[task] = (*found[task], process) if task in found else (process,)
    return found


def _task(text: str) -> TaskId | None:
    """Parse a task id. Returns None for other texts, such as `p0` of the previous release."""
    try:
        return TaskId.parse(text)
    except ValueError:
        return None


def _tasks(texts: Iterable[str]) -> tuple[TaskId, ...]:
    found = map(_task, texts)
    return tuple(task for task in found if task is not None)


# -- checks -------------------------------------------------------------------------------------------------------------

_Body = TypeVar("_Body", bound=msgspec.Struct)


def _compressed(told: msgspec.Struct) -> bytes:
    return zlib.compress(msgspec.json.encode(told), 9)


def _decompressed(raw: bytes) -> bytes:
    decompress = zlib.decompressobj()
    try:
        found = decompress.decompress(raw, MAX_JSON)
    except zlib.error as exc:
        raise MalformedError(f"it cannot be decompressed: {exc}") from exc
    if not decompress.eof or decompress.unused_data:
        raise MalformedError(f"it is cut short, too long, or more than {MAX_JSON} bytes")
    return found


def _read(body: type[_Body], raw: bytes, most: int = MAX_BYTES) -> _Body:
    if len(raw) > most:
        raise MalformedError(f"{len(raw)} bytes are too many")
    try:
        return msgspec.json.decode(raw, type=body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise MalformedError(f"a field is invalid: {exc}"[:200]) from exc


def _check_texts(*texts: Iterable[str]) -> None:
    # Control characters would be a hazard for logs and terminals.
    if not all(map(str.isprintable, chain(*texts))):
        raise MalformedError("a text has characters that cannot be printed")


def _check_hosts(hosts: Iterable[str]) -> None:
    for host in filter(None, hosts):
        try:
            advertised(host)
        except ValueError as exc:
            raise MalformedError(f"host is not a valid address: {printable(str(exc))}") from exc
