"""The data that members of the group exchange, and its authentication.

Each member describes itself, the leader assigns the tasks, and each member reads its assignment. With a token both are
authenticated. A member's HMAC covers its data and the identity that the broker gave it. The leader's HMAC covers the
assignment, the receiver's identity and the generation.

A member without a valid proof is a stranger: it gets no tasks, and its address is not used. An assignment without a valid proof
is refused.

Members list the versions they understand. The leader uses the highest common version.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.kafka import member_codec as codec
from penstock.kafka.member_codec import AssignmentFrame, MalformedError, MemberFrame
from penstock.kafka.members import Decision, MemberIdentity, MemberInfo, Shares
from penstock.peers.addresses import advertised, may_be_loopback
from penstock.peers.proofs import PeerKeys, mac, matches
from penstock.printable import printable

_log = logging.getLogger(__name__)

NAME = "penstock-2"
"""The protocol's name in the group. Version 1 had another name."""

DEFAULT_LIMIT = 1_048_588
"""The brokers' default limit for one record of the offsets topic. A group is one record."""

_RECORD_BYTES = 1_000
_MEMBER_BYTES = 200
_WARNINGS = 1_000

AssignTasks = Callable[[Sequence[MemberInfo]], Shares]


class RefusedError(Exception):
    """The leader's assignment is refused."""


class StrangerError(Exception):
    """A member is not an instance of this application."""


@dataclass(frozen=True)
class JoinedMember:
    """A member as the broker describes it to the leader. `told` is None for bytes that are not of the consumer protocol."""

    identity: MemberIdentity
    told: bytes | None
    size: int = 0
    """The member's bytes in the group's record, without its assignment."""


@dataclass(frozen=True)
class _Known:
    info: MemberInfo
    generation: int = -1
    run: str = ""
    lowest: int = 1
    highest: int = 1


class GroupProtocol:
    """Both sides of the protocol: a member's data and its assignment, and the leader's decision.

    `limit()` returns the largest size of a group's record. It is called only for large groups.
    """

    def __init__(
        self,
        group: str,
        keys: PeerKeys | None,
        info: Callable[[], MemberInfo],
        assign: AssignTasks,
        limit: Callable[[], int] = lambda: DEFAULT_LIMIT,
    ) -> None:
        self._group, self._keys = group, keys
        self._info, self._assign, self._limit = info, assign, limit
        self._run = secrets.token_hex(8)
        self.shown: dict[str, Mapping[str, Sequence[int]]] = {}
        """The partitions of each member by topic, as last decided. Group tools show them."""
        self._warned: set[tuple[str, str]] = set()

    # -- a member's data ------------------------------------------------------------------------------------------------

    def tell(self, identity: MemberIdentity, generation: int) -> bytes:
        """Return this member's user data. `generation` is the last it belonged to."""
        body = codec.encode_member(self._info(), generation, self._run)
        return MemberFrame(
            codec.LOWEST, codec.HIGHEST, self._member_proof(identity, codec.LOWEST, codec.HIGHEST, body), body
        ).encode()

    def _member_proof(self, identity: MemberIdentity, lowest: int, highest: int, body: bytes) -> bytes:
        if self._keys is None:
            return codec.NO_PROOF
        return mac(self._keys.member, self._group, str(identity), lowest, highest, body)

    # -- the leader's decision -----------------------------------------------------------------------------------------

    def decide(self, joined: Sequence[JoinedMember], generation: int) -> dict[str, bytes]:
        """Return the assignment of each member by member id. A stranger's is empty."""
        known: dict[str, _Known] = {}
        for member in joined:
            try:
                known[member.identity.member_id] = self._read(member, generation)
            except (MalformedError, StrangerError) as exc:
                self._warn(member.identity, str(exc))
        version = self._version(joined, known)
        told = dict.fromkeys((member.identity.member_id for member in joined), b"")
        self.shown = {}
        told |= self._deal(version, joined, known, generation)
        self._check_size(joined, known, told)
        return told

    def _read(self, member: JoinedMember, generation: int) -> _Known:
        if member.told is None:
            raise MalformedError("its user data is not of the consumer protocol")
        frame = MemberFrame.decode(member.told)
        proof = self._member_proof(member.identity, frame.lowest, frame.highest, frame.body)
        if self._keys is not None and not matches(frame.proof, proof):
            raise StrangerError("its proof of application.server.token is missing or wrong")
        if frame.lowest > codec.HIGHEST or frame.highest < codec.LOWEST:
            raise StrangerError(
                f"it understands the versions {frame.lowest} to {frame.highest}, this instance {codec.LOWEST} to {codec.HIGHEST}"
            )
        found = _Known(*codec.decode_member(frame.body), frame.lowest, frame.highest)
        if found.generation >= generation:
            raise StrangerError(f"it claims generation {found.generation}, but the group is at {generation}")
        if self._keys is None and found.info.host and not may_be_loopback(advertised(found.info.host)):
            raise StrangerError(f"{found.info.host} is another host, and application.server.token is not set")
        return found

    def _version(self, joined: Sequence[JoinedMember], known: dict[str, _Known]) -> int:
        """Return the highest version that all members understand. Members with only later versions become strangers."""
        version = min((member.highest for member in known.values()), default=codec.HIGHEST)
        version = min(version, codec.HIGHEST)
        for member in joined:
            found = known.get(member.identity.member_id)
            if found is not None and found.lowest > version:
                self._warn(member.identity, f"its lowest version is {found.lowest}, and another member's highest is {version}")
                del known[member.identity.member_id]
        return version

    def _deal(self, version: int, joined: Sequence[JoinedMember], known: dict[str, _Known], generation: int) -> dict[str, bytes]:
        error_code = max((member.info.error_code for member in known.values()), default=0)
        doubles = self._doubles(known)
        infos = list({m.info.process_id: m.info for member_id, m in known.items() if member_id not in doubles}.values())
        shares = Shares({}) if error_code or not infos else self._assign(infos)
        hosts = {info.process_id: info.host for info in infos}
        self.shown = {
            member_id: shares.partitions.get(member.info.process_id, {})
            for member_id, member in known.items()
            if member_id not in doubles
        }
        shared = codec.encode_shared(list(hosts.items()), shares, error_code)
        numbers = {process: number for number, process in enumerate(hosts)}
        told = {}
        for member in joined:
            found = known.get(member.identity.member_id)
            if found is not None:
                is_double = member.identity.member_id in doubles
                own = codec.encode_own(-1 if is_double else numbers[found.info.process_id], is_double)
                proof = self._leader_proof(member.identity, generation, version, own, shared)
                told[member.identity.member_id] = AssignmentFrame(version, proof, own, shared).encode()
        return told

    def _doubles(self, known: dict[str, _Known]) -> set[str]:
        """Return members whose process id belongs to an earlier member of another run: a state directory was copied.

        A run that lost its connection while it joined has two members for a while. They are not doubles.
        """
        first: dict[str, str] = {}
        doubles = set()
        for member_id in sorted(known, key=lambda one: (-known[one].generation, one)):
            member = known[member_id]
            before = first.setdefault(member.info.process_id, member_id)
            if known[before].run != member.run:
                doubles.add(member_id)
                _log.warning(
                    "members %s and %s of group %s both have the process id %s: a state directory was copied. The second gets no "
                    "work until it has a new id",
                    *map(printable, (before, member_id, self._group, member.info.process_id)),
                )
        return doubles

    def _leader_proof(self, identity: MemberIdentity, generation: int, version: int, own: bytes, shared: bytes) -> bytes:
        if self._keys is None:
            return codec.NO_PROOF
        return mac(self._keys.leader, self._group, str(identity), generation, version, own, shared)

    def _check_size(self, joined: Sequence[JoinedMember], known: Mapping[str, _Known], told: dict[str, bytes]) -> None:
        """Raise `ConfigError` if this application's members make the group's record too large.

        A group is one record of the brokers' offsets topic. The brokers refuse a record that is too large, and the group never
        gets a generation. If only strangers make it too large, log a warning: this member joins again.
        """
        listed = [len(t) + 6 + 4 * len(numbers) for shown in self.shown.values() for t, numbers in shown.items()]
        given = [*(len(one) for one in told.values()), *listed]
        own = record_size([member.size for member in joined if member.identity.member_id in known], given)
        whole = record_size([member.size for member in joined], given)
        if whole <= DEFAULT_LIMIT // 2 or whole <= (limit := self._limit()):
            return
        if own > limit:
            raise ConfigError(
                f"the group {self._group} of {len(known)} members needs a record of {own} bytes, but the brokers accept {limit}. "
                "Run fewer instances, or set a larger max.message.bytes for the topic __consumer_offsets (and "
                "replica.fetch.max.bytes with it)"
            )
        largest = max((m for m in joined if m.identity.member_id not in known), key=lambda member: member.size)
        self._warn(
            largest.identity,
            "the brokers refuse the group's record while this member is in the group, because of the size of its user data",
        )

    def _warn(self, identity: MemberIdentity, reason: str) -> None:
        """Log once for each member and reason, because members join repeatedly."""
        if (str(identity), reason) not in self._warned and len(self._warned) < _WARNINGS:
            self._warned.add((str(identity), reason))
            _log.warning(
                "%s of group %s is a stranger and gets no work: %s. If it is an instance of this application, give all of "
                "them the same application.server.token and the same release",
                *(repr(str(identity))[:120], self._group, printable(reason)),
            )

    # -- this member's assignment --------------------------------------------------------------------------------------

    def take(self, raw: bytes | None, identity: MemberIdentity, generation: int) -> Decision:
        """Return the leader's decision for this member. Raises RefusedError if it is malformed or not authenticated."""
        try:
            if not raw:
                raise RefusedError("the leader assigned nothing: it treats this instance as a stranger, or is no instance itself")
            frame = AssignmentFrame.decode(raw)
            proof = self._leader_proof(identity, generation, frame.version, frame.own, frame.shared)
            if self._keys is not None and not matches(frame.proof, proof):
                raise RefusedError("the leader's proof of application.server.token is missing or wrong")
            if not codec.LOWEST <= frame.version <= codec.HIGHEST:
                raise RefusedError(f"the leader uses version {frame.version}, this instance {codec.LOWEST} to {codec.HIGHEST}")
            return codec.decode_decision(frame.own, frame.shared)
        except MalformedError as exc:
            raise RefusedError(f"the assignment is malformed: {exc}") from exc


def record_size(members: Sequence[int], assignments: Sequence[int]) -> int:
    """Return the approximate size of a group's record."""
    return _RECORD_BYTES + _MEMBER_BYTES * len(members) + sum(members) + sum(assignments)
