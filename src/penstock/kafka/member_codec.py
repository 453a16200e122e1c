"""What travels in the group protocol as bytes. Whatever comes in may be anybody's: all of it is bounded and checked.

Version 1 is JSON without a version. From version 2 on a frame that stays as it is tells the versions a side understands and
carries a proof; the body is compressed JSON. Fields may be added to a body: those that are not known are ignored.

    member:      "PM"  lowest version  highest version  proof (32)  zlib(JSON)
    assignment:  "PA"  version  proof (32)  size  JSON of the member's own part  zlib(JSON of the map for all)

The map has the processes once, with their hosts, and then for each sub-topology the numbers of the processes that have its
partitions: for 100 instances and 1,000 partitions with standbys 5.4 KB for each member, where names took 36 KB.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from penstock.ids import UnitId
from penstock.kafka.members import Decision, MemberInfo, Shares
from penstock.peers.addresses import MAX_ADDRESS, advertised
from penstock.peers.proofs import PROOF_BYTES
from penstock.printable import printable

LOWEST, HIGHEST = 2, 2
"""The versions that this release speaks where members name theirs."""

MAX_BYTES = 1 << 20
MAX_JSON = 4 << 20
MAX_UNITS = 100_000
MAX_PROCESSES = 10_000
NO_PROOF = bytes(PROOF_BYTES)

_MEMBER = struct.Struct(f">2sBB{PROOF_BYTES}s")
_ASSIGNMENT = struct.Struct(f">2sB{PROOF_BYTES}sI")
_TASK = re.compile(r"(0|[1-9][0-9]{0,8})_(0|[1-9][0-9]{0,8})", re.ASCII)


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

# Types, lengths and ranges of fields, which msgspec compares with what comes. Bodies may have fields that are not known here.
_Text = Annotated[str, Meta(max_length=200)]
_Host = Annotated[str, Meta(max_length=MAX_ADDRESS)]
_Unit = Annotated[UnitId, Meta(max_length=200)]
_Units = Annotated[tuple[_Unit, ...], Meta(max_length=MAX_UNITS)]
_UnitsOf = Annotated[dict[_Text, _Units], Meta(max_length=MAX_UNITS)]
_ErrorCode = Annotated[int, Meta(ge=0, le=1_000)]


class _FirstMember(msgspec.Struct):
    """Version 1: exactly the fields of its first release, which refuses others."""

    process_id: Annotated[str, Meta(min_length=1, max_length=200)]
    capacity: Annotated[int, Meta(ge=0, le=10_000)] = 1
    host: _Host = ""
    active: _Units = ()
    standby: _Units = ()
    offsets: Annotated[dict[_Unit, Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]], Meta(max_length=MAX_UNITS)] = {}
    tags: Annotated[dict[_Text, _Text], Meta(max_length=MAX_UNITS)] = {}
    error_code: _ErrorCode = 0

    def info(self) -> MemberInfo:
        """What it says, once its texts were looked at."""
        _check_texts((self.process_id,), self.active, self.standby, self.offsets, self.tags, self.tags.values())
        _check_hosts([self.host])
        return MemberInfo(*(getattr(self, name) for name in _FirstMember.__struct_fields__))


class _Member(_FirstMember, kw_only=True):
    generation: Annotated[int, Meta(ge=-1, le=1 << 31)] = -1
    run: _Text = ""


def encode_member(info: MemberInfo, generation: int, run: str) -> bytes:
    """The body of what a member tells; `generation` is the last it was part of, or -1, `run` something of its own."""
    return _compressed(_Member(*_fields(info), generation=generation, run=run))


def decode_member(body: bytes) -> tuple[MemberInfo, int, str]:
    """What a member told, the last generation it was part of, and its run."""
    told = _read(_Member, _decompressed(body), MAX_JSON)
    _check_texts((told.run,))
    return told.info(), told.generation, told.run


def encode_member_without_version(info: MemberInfo) -> bytes:
    """Version 1."""
    return msgspec.json.encode(_FirstMember(*_fields(info)))


def decode_member_without_version(raw: bytes) -> MemberInfo:
    """Version 1."""
    return _read(_FirstMember, raw).info()


def _fields(info: MemberInfo) -> tuple[Any, ...]:
    return tuple(getattr(info, name) for name in _FirstMember.__struct_fields__)


# -- assignments -------------------------------------------------------------------------------------------------------


# Who has what. By the number of a sub-topology the processes of its partitions, -1 for none; by the name of a unit its process.
_Layer = Annotated[dict[_Text, Annotated[list[int], Meta(max_length=MAX_UNITS)] | int], Meta(max_length=MAX_UNITS)]


class _Process(msgspec.Struct, array_like=True):
    name: _Text
    host: _Host


class _Shared(msgspec.Struct):
    processes: Annotated[list[_Process], Meta(max_length=MAX_PROCESSES)] = []
    active: _Layer = {}
    copies: Annotated[list[_Layer], Meta(max_length=100)] = []
    probing: bool = False
    error_code: _ErrorCode = 0


class _Own(msgspec.Struct):
    process: int = -1
    double: bool = False


class _FirstDecision(msgspec.Struct):
    """Version 1: all names, for every member."""

    units: _Units
    kept: _Units = ()
    active: _UnitsOf = {}
    copies: _UnitsOf = {}
    hosts: Annotated[dict[_Text, _Host], Meta(max_length=MAX_UNITS)] = {}
    probing: bool = False
    error: _ErrorCode = 0


def encode_shared(processes: Sequence[tuple[str, str]], shares: Shares, error_code: int) -> bytes:
    """The map for all members: processes with their hosts, and who has what."""
    numbers = {process: number for number, (process, _) in enumerate(processes)}
    active = {unit: numbers[process] for process, units in shares.active.items() if process in numbers for unit in units}
    copies: dict[UnitId, list[int]] = {}
    for process, units in shares.copies.items():
        for unit in units if process in numbers else ():
            copies.setdefault(unit, []).append(numbers[process])
    layers = [{unit: held[depth] for unit, held in copies.items() if len(held) > depth} for depth in range(_most(copies))]
    told = [_Process(*entry) for entry in processes]
    return _compressed(_Shared(told, _layer(active), [_layer(layer) for layer in layers], shares.probing, error_code))


def encode_own(process: int, is_double: bool) -> bytes:
    """The part of one member: the number of its process in the map."""
    return msgspec.json.encode(_Own(process, is_double))


def decode_decision(own: bytes, shared: bytes) -> Decision:
    """What the leader decided, for the member whose own part this is."""
    told, mine = _read(_Shared, _decompressed(shared), MAX_JSON), _read(_Own, own)
    names = [process.name for process in told.processes]
    hosts = {process.name: process.host for process in told.processes}
    _check_texts(names)
    _check_hosts(hosts.values())
    if len(hosts) != len(names):
        raise MalformedError("a process is there twice")
    if not -1 <= mine.process < len(names):
        raise MalformedError(f"it is for process {mine.process} of {len(names)}")
    active = _read_layer(told.active, len(names))
    layers = [_read_layer(layer, len(names)) for layer in told.copies]
    return Decision(
        tuple(unit for unit, process in active.items() if process == mine.process),
        tuple(dict.fromkeys(unit for layer in layers for unit, process in layer.items() if process == mine.process)),
        {unit: names[process] for unit, process in active.items()},
        _standbys((unit, names[process]) for layer in layers for unit, process in layer.items()),
        hosts,
        told.probing,
        told.error_code,
        mine.double,
    )


def encode_decision_without_version(process: str, hosts: Mapping[str, str], shares: Shares, error_code: int) -> bytes:
    """Version 1."""
    active = {name: tuple(units) for name, units in shares.active.items()}
    copies = {name: tuple(units) for name, units in shares.copies.items() if units}
    mine = active.get(process, ()), copies.get(process, ())
    return msgspec.json.encode(_FirstDecision(*mine, active, copies, dict(hosts), shares.probing, error_code))


def decode_decision_without_version(raw: bytes) -> Decision:
    """Version 1."""
    told = _read(_FirstDecision, raw)
    _check_texts(told.units, told.kept, told.active, told.copies, told.hosts, *told.active.values(), *told.copies.values())
    _check_hosts(told.hosts.values())
    return Decision(
        told.units,
        told.kept,
        {unit: process for process, units in told.active.items() for unit in units},
        _standbys((unit, process) for process, units in told.copies.items() for unit in units),
        told.hosts,
        told.probing,
        told.error,
    )


def _most(copies: Mapping[UnitId, Sequence[int]]) -> int:
    return max((len(held) for held in copies.values()), default=0)


def _layer(held: Mapping[UnitId, int]) -> dict[str, Any]:
    """Units by process: tasks as a list for each sub-topology, other units by name."""
    found: dict[str, Any] = {}
    tasks: dict[str, dict[int, int]] = {}
    for unit, process in held.items():
        task = _TASK.fullmatch(unit)
        if task is None:
            found[unit] = process
        else:
            tasks.setdefault(task[1], {})[int(task[2])] = process
    for subtopology, partitions in tasks.items():
        if max(partitions) < 4 * len(partitions) + 16:
            found[subtopology] = [partitions.get(partition, -1) for partition in range(max(partitions) + 1)]
        else:
            found |= {f"{subtopology}_{partition}": process for partition, process in partitions.items()}
    return found


def _read_layer(told: Mapping[str, list[int] | int], processes: int) -> dict[UnitId, int]:
    _check_texts(told)
    found: dict[UnitId, int] = {}
    for name, value in told.items():
        if isinstance(value, list):
            found |= {UnitId(f"{name}_{partition}"): process for partition, process in enumerate(value) if process != -1}
        else:
            found[UnitId(name)] = value
        if len(found) > MAX_UNITS:
            raise MalformedError(f"there are more than {MAX_UNITS} units")
    if found and not 0 <= min(found.values()) <= max(found.values()) < processes:
        raise MalformedError(f"a unit is with something else than one of {processes} processes")
    return found


def _standbys(copies: Iterable[tuple[UnitId, str]]) -> dict[UnitId, tuple[str, ...]]:
    found: dict[UnitId, list[str]] = {}
    for unit, process in copies:
        found.setdefault(unit, []).append(process)
    return {unit: tuple(processes) for unit, processes in found.items()}


# -- what is read is what was meant ------------------------------------------------------------------------------------

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
        raise MalformedError(f"it does not fit: {exc}"[:200]) from exc


def _check_texts(*texts: Iterable[str]) -> None:
    # What cannot be printed would be a hazard for logs and terminals.
    if not all(map(str.isprintable, chain(*texts))):
        raise MalformedError("a text has characters that cannot be printed")


def _check_hosts(hosts: Iterable[str]) -> None:
    for host in filter(None, hosts):
        try:
            advertised(host)
        except ValueError as exc:
            raise MalformedError(f"host is not an address that can be reached: {printable(str(exc))}") from exc
