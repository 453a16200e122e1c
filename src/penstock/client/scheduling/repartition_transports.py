"""Which way repartitions go, from generation to generation of the group.

The leader decides, and tells all members with their part of the work. A pipeline that one instance has to itself goes through
the shuffle; where there are others to share it with it goes through its topics, so that its tasks are dealt out like any others:

    alone ──── another joins ────► through the topics
      ▲                                   │
      └── alone for a while ◄── the others have gone

Others wait for their share, so the topics are gone over to at once. Back to the shuffle nobody is in a hurry: an instance that is
started anew leaves the others alone for a moment only, and to go there and back costs two interruptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.client.scheduling.units import pipelines_of
from penstock.clock import monotonic
from penstock.kafka.members import MemberInfo
from penstock.spark.plan import Plan


def only_for_one(plan: Plan) -> frozenset[int]:
    """The sub-topologies before a shuffle whose pipelines cannot be shared: there is one partition of everything in them."""
    pipelines = pipelines_of(plan)
    wide = {
        pipelines[before.id]
        for subtopology in plan.subtopologies.values()
        for before in plan.feeding(subtopology)
        if plan.task_count(subtopology) > 1 or plan.task_count(before) > 1
    }
    return frozenset(id_ for id_, pipeline in pipelines.items() if pipeline not in wide)


class Transports:
    """What one instance decides where it leads the group.

    `delay` is how many seconds it has to be alone before it goes back to the shuffle; `went` tells which sub-topologies were
    shuffled in the last generation it was part of, None where there was none, or nobody said.
    """

    def __init__(
        self,
        setting: str,
        delay: float,
        went: Callable[[], tuple[int, ...] | None],
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._setting, self._delay, self._went = setting, delay, went
        self._now = now
        self._alone_since: float | None = None
        self._has_asked = False

    def choose(self, plan: Plan, members: Sequence[MemberInfo]) -> frozenset[int]:
        """The sub-topologies whose repartitions go through the shuffle from now on, of those that can in `plan`.

        Members that cannot change over, by their release or by their setting, are followed.
        """
        everything, settings = frozenset(plan.shuffled.values()), {self._setting, *(member.transport for member in members)}
        since, self._alone_since, self._has_asked = self._alone_since, None, False
        if "" in settings or "shuffle" in settings:
            return everything
        if "topic" in settings:
            return frozenset()
        if len(members) > 1:
            return only_for_one(plan)
        went, now = self._went(), self._now()
        if went is None or everything.issubset(went) or (since is not None and now - since >= self._delay):
            return everything
        self._alone_since = now if since is None else since
        return only_for_one(plan)

    def look_again(self) -> bool:
        """Whether the group is to be asked anew, because this instance has been alone long enough; told once."""
        since = self._alone_since
        if since is None or self._has_asked or self._now() - since < self._delay:
            return False
        self._has_asked = True
        return True
