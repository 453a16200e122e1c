"""Before a generation works: where repartitions went through the shuffle and do not now, begin where it ended.

Where there are vectors of positions left, repartitions went through the shuffle before: in an earlier run, in the last
generation, or in one that others have had without this instance. The leader turns them into offsets, in one commit; the others
look until that is done. So does it with offsets that somebody has moved while the application was stopped.
"""

from __future__ import annotations

import logging
import time
from functools import partial

from penstock.client.scheduling.group_words import GroupWords
from penstock.client.scheduling.moved_offsets import shown_moves
from penstock.client.scheduling.notes import Beside
from penstock.client.scheduling.owned_tasks import OwnedTasks
from penstock.client.scheduling.positions import Positions
from penstock.errors import BrokerError
from penstock.kafka.membership import GroupMember, Membership

_log = logging.getLogger(__name__)

# So long the group's leader is waited for until it has left the shuffle for all.
_LEADER_SECONDS = 10.0


def leave_shuffle(member: GroupMember, positions: Positions, generation: int) -> bool:
    """Turn vectors that are not needed any more into offsets, and begin at offsets that were moved; whether that is done.

    One commit for all of it, by the leader of this generation alone: nobody works before it, and nobody commits over it.
    """
    left, moved = positions.leaving_shuffle(), positions.following_moves()
    if not left and not moved:
        return True
    if not member.is_leader:
        return False
    if left:
        _log.info("repartitions that went through the shuffle go through their topics from now on")
    if moved:
        _log.info("before a shuffle offsets count that others have committed: %s", shown_moves(moved))
    try:
        member.commit({**left, **moved}, whole=True, generation=generation)
    except BrokerError:
        # It may still be taken, when others have gone on from what they found: in another generation it is not.
        member.request_rejoin()
        raise
    return True


class ShuffleExit:
    """Looks, in every generation, whether the shuffle has been left; used by the conductor's thread."""

    def __init__(self, words: GroupWords, tasks: OwnedTasks, beside: Beside) -> None:
        self._words, self._tasks, self._beside = words, tasks, beside
        self._done_at = -1
        self._since, self._rests_until = 0.0, 0.0
        self._follows_moves = False

    def look_again(self) -> None:
        """There is another plan."""
        self._done_at = -1

    def is_done(self, membership: Membership, word: int) -> bool:
        """Whether offsets can be read to work from; where that is not known yet, it is looked for beside all else."""
        member = self._words.member
        if self._done_at == word or member is None:
            return True
        if self._follows_moves and not self._tasks.plan.has_topics:
            self._done_at = word
            return True
        if time.monotonic() >= self._rests_until:
            work = partial(leave_shuffle, member, self._tasks.positions.copy(), membership.generation)
            self._beside.do("leave the shuffle", work, partial(self._looked, word))
        return False

    def _looked(self, word: int, done: bool) -> None:
        now = time.monotonic()
        if done:
            self._done_at, self._since, self._rests_until = word, 0.0, 0.0
            self._follows_moves = True
            return
        self._since = self._since or now
        waited = now - self._since
        self._rests_until = now + min(1.0, 0.05 + waited / 10)
        if waited > _LEADER_SECONDS and self._words.member is not None:
            # A static member that led, and was started anew since, does not lead its old generation any more: nobody does.
            self._since = now
            _log.warning(
                "repartitions are to go another way or from other offsets, and the group's leader has not seen to it for %.0f s: "
                "the group is asked anew",
                waited,
            )
            self._words.request_rejoin()
