"""What travels in the group protocol as bytes. Whatever comes in may be anybody's: all of it is bounded and checked.

Version 1 is JSON without a version. From version 2 on a frame that stays as it is tells the versions a side understands and
carries a proof; the body is compressed JSON. Fields may be added to a body: those that are not known are ignored.

    member:      "PM"  lowest version  highest version  proof (32)  zlib(JSON)
    assignment:  "PA"  version  proof (32)  size  JSON of the member's own part  zlib(JSON of the map for all)

The map has the processes once, with their hosts, and then for each sub-topology the numbers of the processes that have its
partitions: for 100 instances and 1,000 partitions with standbys 5.4 KB for each member, where names took 36 KB.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
_MAX_TEXT = 200
_MAX_CAPACITY = 10_000
_MAX_NUMBER = 1 << 63
_MAX_SUBTOPOLOGY = 1 << 31
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


def encode_member(info: MemberInfo, generation: int, run: str) -> bytes:
    """The body of what a member tells; `generation` is the last it was part of, or -1, `run` something of its own."""
    return _compressed({**_fields(info), "generation": generation, "run": run, "transport": info.transport})


def decode_member(body: bytes) -> tuple[MemberInfo, int, str]:
    """What a member told, the last generation it was part of, and its run."""
    told = _json(_decompressed(body))
    return _member(told), _number(told, "generation", -1, 1 << 31, -1), _text(told.get("run", ""), "run")


def encode_member_without_version(info: MemberInfo) -> bytes:
    """Version 1: exactly the fields of its first release, which refuses others."""
    return json.dumps(_fields(info)).encode()


def decode_member_without_version(raw: bytes) -> MemberInfo:
    """Version 1."""
    if len(raw) > MAX_BYTES:
        raise MalformedError(f"{len(raw)} bytes are too many")
    return _member(_json(raw))


def _fields(info: MemberInfo) -> dict[str, Any]:
    return {
        "process_id": info.process_id,
        "capacity": info.capacity,
        "host": info.host,
        "active": list(info.active),
        "standby": list(info.standby),
        "offsets": dict(info.offsets),
        "tags": dict(info.tags),
        "error_code": info.error_code,
    }


def _member(told: Mapping[str, Any]) -> MemberInfo:
    process_id = _text(told.get("process_id"), "process_id")
    if not process_id:
        raise MalformedError("process_id is empty")
    return MemberInfo(
        process_id,
        _number(told, "capacity", 0, _MAX_CAPACITY, 1),
        _host(told.get("host", "")),
        _units(told.get("active", []), "active"),
        _units(told.get("standby", []), "standby"),
        {
            UnitId(_text(unit, "offsets")): _whole(offset, "offsets", -_MAX_NUMBER, _MAX_NUMBER)
            for unit, offset in _mapping(told.get("offsets", {}), "offsets").items()
        },
        {_text(key, "tags"): _text(value, "tags") for key, value in _mapping(told.get("tags", {}), "tags").items()},
        _number(told, "error_code", 0, 1_000, 0),
        _text(told.get("transport", ""), "transport"),
    )


# -- assignments -------------------------------------------------------------------------------------------------------


def encode_shared(processes: Sequence[tuple[str, str]], shares: Shares, error_code: int) -> bytes:
    """The map for all members: processes with their hosts, and who has what."""
    numbers = {process: number for number, (process, _) in enumerate(processes)}
    active = {unit: [numbers[process]] for process, units in shares.active.items() if process in numbers for unit in units}
    copies: dict[UnitId, list[int]] = {}
    for process, units in shares.copies.items():
        for unit in units if process in numbers else ():
            copies.setdefault(unit, []).append(numbers[process])
    layers = [{unit: held[depth] for unit, held in copies.items() if len(held) > depth} for depth in range(_most(copies))]
    return _compressed(
        {
            "processes": [list(entry) for entry in processes],
            "active": _layer({unit: held[0] for unit, held in active.items()}),
            "copies": [_layer(layer) for layer in layers],
            "probing": shares.probing,
            "error_code": error_code,
            **({} if shares.shuffled is None else {"shuffled": list(shares.shuffled)}),
            **(
                {"pipelines": {unit: list(counts.items()) for unit, counts in shares.pipelines.items()}}
                if shares.pipelines
                else {}
            ),
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
    active = _read_layer(told.get("active", {}), len(names))
    layers = [_read_layer(layer, len(names)) for layer in _list(told.get("copies", []), "copies", 100)]
    number = _number(mine, "process", -1, len(names) - 1, -1)
    return Decision(
        tuple(unit for unit, process in active.items() if process == number),
        tuple(dict.fromkeys(unit for layer in layers for unit, process in layer.items() if process == number)),
        {unit: names[process] for unit, process in active.items()},
        _standbys(layers, names),
        hosts,
        _flag(told, "probing"),
        _number(told, "error_code", 0, 1_000, 0),
        _flag(mine, "double"),
        _shuffled(told.get("shuffled")),
        _pipelines(told.get("pipelines", {})),
    )


def encode_decision_without_version(process: str, hosts: Mapping[str, str], shares: Shares, error_code: int) -> bytes:
    """Version 1: all names, for every member."""
    active = {name: list(units) for name, units in shares.active.items()}
    copies = {name: list(units) for name, units in shares.copies.items() if units}
    return json.dumps(
        {
            "units": active.get(process, []),
            "kept": copies.get(process, []),
            "active": active,
            "copies": copies,
            "hosts": dict(hosts),
            "probing": shares.probing,
            "error": error_code,
        }
    ).encode()


def decode_decision_without_version(raw: bytes) -> Decision:
    """Version 1."""
    if len(raw) > MAX_BYTES:
        raise MalformedError(f"{len(raw)} bytes are too many")
    told = _json(raw)
    active = {_text(p, "active"): _units(units, "active") for p, units in _mapping(told.get("active", {}), "active").items()}
    copies = {_text(p, "copies"): _units(units, "copies") for p, units in _mapping(told.get("copies", {}), "copies").items()}
    standbys: dict[UnitId, list[str]] = {}
    for process, units in copies.items():
        for unit in units:
            standbys.setdefault(unit, []).append(process)
    return Decision(
        _units(told.get("units"), "units"),
        _units(told.get("kept", []), "kept"),
        {unit: process for process, units in active.items() for unit in units},
        {unit: tuple(processes) for unit, processes in standbys.items()},
        {_text(p, "hosts"): _host(host) for p, host in _mapping(told.get("hosts", {}), "hosts").items()},
        _flag(told, "probing"),
        _number(told, "error", 0, 1_000, 0),
    )


def _shuffled(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    return tuple(_whole(one, "shuffled", 0, _MAX_SUBTOPOLOGY) for one in _list(value, "shuffled", MAX_UNITS))


def _pipelines(value: Any) -> dict[UnitId, dict[int, int]]:
    found: dict[UnitId, dict[int, int]] = {}
    for unit, told in _mapping(value, "pipelines").items():
        pairs = [_list(pair, "pipelines", 2) for pair in _list(told, "pipelines", MAX_UNITS)]
        if any(len(pair) != 2 for pair in pairs):
            raise MalformedError("a pipeline has a sub-topology without a number of tasks")
        found[UnitId(_text(unit, "pipelines"))] = {
            _whole(subtopology, "pipelines", 0, _MAX_SUBTOPOLOGY): _whole(count, "pipelines", 0, MAX_UNITS)
            for subtopology, count in pairs
        }
    if sum(count for counts in found.values() for count in counts.values()) > MAX_UNITS:
        raise MalformedError(f"the pipelines have more than {MAX_UNITS} tasks")
    return found


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


def _read_layer(told: Any, processes: int) -> dict[UnitId, int]:
    found: dict[UnitId, int] = {}
    for name, value in _mapping(told, "units").items():
        if isinstance(value, list):
            for partition, process in enumerate(value):
                if _whole(process, "units", -1, processes - 1) >= 0:
                    found[UnitId(f"{_text(name, 'units')}_{partition}")] = process
        else:
            found[UnitId(_text(name, "units"))] = _whole(value, "units", 0, processes - 1)
        if len(found) > MAX_UNITS:
            raise MalformedError(f"there are more than {MAX_UNITS} units")
    return found


def _standbys(layers: Iterable[Mapping[UnitId, int]], names: Sequence[str]) -> dict[UnitId, tuple[str, ...]]:
    found: dict[UnitId, tuple[str, ...]] = {}
    for layer in layers:
        for unit, process in layer.items():
            found[unit] = (*found.get(unit, ()), names[process])
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


def _units(value: Any, what: str) -> tuple[UnitId, ...]:
    return tuple(UnitId(_text(unit, what)) for unit in _list(value, what, MAX_UNITS))


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > MAX_UNITS:
        raise MalformedError(f"{what} is not an object of at most {MAX_UNITS} entries")
    return value
