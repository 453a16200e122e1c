"""What members of the group say to each other, and whom they believe.

A member tells about itself; the leader deals out the work; each member takes its part. With a token all of this is proved: a
member's tale by an HMAC over it and the identity that the broker knows the member under, the leader's decision by one over it,
the receiver's identity and the generation. Who proves nothing is a stranger: it gets no work, and its address is not used. A
decision that is not proved is refused.

Members name the versions they understand, and the leader speaks the highest that all of them do.
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
"""The name of the protocol among those of the group. Version 1 had another one."""

DEFAULT_LIMIT = 1_048_588
"""What a broker takes as one record of its offsets topic unless told otherwise; a group is one record."""

_RECORD_BYTES = 1_000
_MEMBER_BYTES = 200
_WARNINGS = 1_000

AssignTasks = Callable[[Sequence[MemberInfo]], Shares]


class RefusedError(Exception):
    """What the leader told is not taken."""


class StrangerError(Exception):
    """A member is not one of the application's instances."""


@dataclass(frozen=True)
class JoinedMember:
    """A member as the broker tells of it to the leader; `told` is None where its bytes are not of the consumer protocol."""

    identity: MemberIdentity
    told: bytes | None
    size: int = 0
    """How many bytes the group's record has of it besides its assignment."""


@dataclass(frozen=True)
class _Known:
    info: MemberInfo
    generation: int = -1
    run: str = ""
    lowest: int = 1
    highest: int = 1


class GroupProtocol:
    """Both sides of it: what this member tells and takes, and what it decides where it leads the group.

    `limit()` tells how large the record of a group may be; it is asked only where that could matter.
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
        """The partitions that each member reads, by topic, as decided last: for whoever looks at the group from outside."""
        self._warned: set[tuple[str, str]] = set()

    # -- what this member tells ----------------------------------------------------------------------------------------

    def tell(self, identity: MemberIdentity, generation: int) -> bytes:
        """What this member tells; `generation` is the last it was part of."""
        body = codec.encode_member(self._info(), generation, self._run)
        return MemberFrame(
            codec.LOWEST, codec.HIGHEST, self._member_proof(identity, codec.LOWEST, codec.HIGHEST, body), body
        ).encode()

    def _member_proof(self, identity: MemberIdentity, lowest: int, highest: int, body: bytes) -> bytes:
        if self._keys is None:
            return codec.NO_PROOF
        return mac(self._keys.member, self._group, str(identity), lowest, highest, body)

    # -- what the leader decides ---------------------------------------------------------------------------------------

    def decide(self, joined: Sequence[JoinedMember], generation: int) -> dict[str, bytes]:
        """What each member is told, by member id; a stranger is told nothing."""
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
            raise MalformedError("what it tells is not of the consumer protocol")
        frame = MemberFrame.decode(member.told)
        proof = self._member_proof(member.identity, frame.lowest, frame.highest, frame.body)
        if self._keys is not None and not matches(frame.proof, proof):
            raise StrangerError("it does not prove that it knows application.server.token")
        if frame.lowest > codec.HIGHEST or frame.highest < codec.LOWEST:
            raise StrangerError(
                f"it speaks the versions {frame.lowest} to {frame.highest}, this instance {codec.LOWEST} to {codec.HIGHEST}"
            )
        found = _Known(*codec.decode_member(frame.body), frame.lowest, frame.highest)
        if found.generation >= generation:
            raise StrangerError(f"it claims to be of generation {found.generation}, and this is {generation}")
        if self._keys is None and found.info.host and not may_be_loopback(advertised(found.info.host)):
            raise StrangerError(f"{found.info.host} is on another host, and there is no application.server.token")
        return found

    def _version(self, joined: Sequence[JoinedMember], known: dict[str, _Known]) -> int:
        """The highest version that all members understand; those that understand only later ones are strangers."""
        version = min((member.highest for member in known.values()), default=codec.HIGHEST)
        version = min(version, codec.HIGHEST)
        for member in joined:
            found = known.get(member.identity.member_id)
            if found is not None and found.lowest > version:
                self._warn(member.identity, f"it speaks no version below {found.lowest}, and another member none above {version}")
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
        """Members whose process id another run has that was there before: a state folder was copied.

        A run that has lost its connection while it joined is there twice for a while, which is no harm.
        """
        first: dict[str, str] = {}
        doubles = set()
        for member_id in sorted(known, key=lambda one: (-known[one].generation, one)):
            member = known[member_id]
            before = first.setdefault(member.info.process_id, member_id)
            if known[before].run != member.run:
                doubles.add(member_id)
                _log.warning(
                    "members %s and %s of group %s both have the process id %s: a state folder was copied; the second gets no "
                    "work until it has a new id",
                    *map(printable, (before, member_id, self._group, member.info.process_id)),
                )
        return doubles

    def _leader_proof(self, identity: MemberIdentity, generation: int, version: int, own: bytes, shared: bytes) -> bytes:
        if self._keys is None:
            return codec.NO_PROOF
        return mac(self._keys.leader, self._group, str(identity), generation, version, own, shared)

    def _check_size(self, joined: Sequence[JoinedMember], known: Mapping[str, _Known], told: dict[str, bytes]) -> None:
        """Raise `ConfigError` if the group's record is too large because of this application's own members.

        A group is one record of the brokers' offsets topic. The brokers refuse a record that is too large, and the group never
        gets a generation. What strangers send is not this application's fault: it gives a warning, and this member joins again.
        """
        listed = [len(t) + 6 + 4 * len(numbers) for shown in self.shown.values() for t, numbers in shown.items()]
        given = [*(len(one) for one in told.values()), *listed]
        own = record_size([member.size for member in joined if member.identity.member_id in known], given)
        whole = record_size([member.size for member in joined], given)
        if whole <= DEFAULT_LIMIT // 2 or whole <= (limit := self._limit()):
            return
        if own > limit:
            raise ConfigError(
                f"the group {self._group} of {len(known)} members needs a record of {own} bytes, and the brokers take {limit}: "
                "run fewer instances, or set a larger max.message.bytes for the topic __consumer_offsets (and "
                "replica.fetch.max.bytes with it)"
            )
        largest = max((m for m in joined if m.identity.member_id not in known), key=lambda member: member.size)
        self._warn(
            largest.identity,
            "the brokers refuse the group's record while this member is in the group, because of the size of its user data",
        )

    def _warn(self, identity: MemberIdentity, reason: str) -> None:
        """Once for each member and reason: it joins again and again."""
        if (str(identity), reason) not in self._warned and len(self._warned) < _WARNINGS:
            self._warned.add((str(identity), reason))
            _log.warning(
                "%s of group %s is a stranger and gets no work: %s. If it is an instance of this application, give all of "
                "them the same application.server.token and the same release",
                *(repr(str(identity))[:120], self._group, printable(reason)),
            )

    # -- what this member takes ----------------------------------------------------------------------------------------

    def take(self, raw: bytes | None, identity: MemberIdentity, generation: int) -> Decision:
        """What the leader decided for this member; RefusedError where it is malformed, or not proved to be this application's."""
        try:
            if not raw:
                raise RefusedError("the leader gives it no part: it takes this instance for a stranger, or is no instance itself")
            frame = AssignmentFrame.decode(raw)
            proof = self._leader_proof(identity, generation, frame.version, frame.own, frame.shared)
            if self._keys is not None and not matches(frame.proof, proof):
                raise RefusedError("the leader does not prove that it knows application.server.token")
            if not codec.LOWEST <= frame.version <= codec.HIGHEST:
                raise RefusedError(f"the leader speaks version {frame.version}, this instance {codec.LOWEST} to {codec.HIGHEST}")
            return codec.decode_decision(frame.own, frame.shared)
        except MalformedError as exc:
            raise RefusedError(f"what the leader tells is malformed: {exc}") from exc


def record_size(members: Sequence[int], assignments: Sequence[int]) -> int:
    """How large the record of a group is, about, for members and assignments of these sizes."""
    return _RECORD_BYTES + _MEMBER_BYTES * len(members) + sum(members) + sum(assignments)
