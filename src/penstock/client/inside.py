"""What goes on inside an instance, for penstock's own tests and benchmarks: all they may look at, and no public API.

    view = inside(streams)
    view.watch_turns(lambda turn, answers, seconds: print(turn.records))

Whatever an application can ask itself is not here: `metadata_for_local_threads`, `metrics`, listeners and logs tell it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.client.scheduling.turns import Turn
from penstock.ids import TaskId, TopicPartition
from penstock.spark.messages import LaneAnswer, RestoreProgress

if TYPE_CHECKING:
    from penstock.client.kafka_streams import KafkaStreams
    from penstock.client.queries.tables import StateTables
    from penstock.client.scheduling.conductor import Conductor
    from penstock.kafka.membership import Membership
    from penstock.spark.driver.lane_jobs import LaneJobs
    from penstock.spark.driver.session_use import SessionUse

Address = str | tuple[str, int]
HearTurn = Callable[[Turn, Mapping[int, LaneAnswer], float], None]
HearRestore = Callable[[RestoreProgress, str], None]


def inside(streams: KafkaStreams) -> Inside:
    """The inside of an instance."""
    return streams._inside


class Inside:
    """A view of an instance. It is there from the beginning; what is not there before the start is empty until then."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self._conductor: Conductor | None = None
        self._lane_jobs: LaneJobs | None = None
        self._session: SessionUse | None = None
        self._tables: StateTables | None = None
        self._hear_turns: list[HearTurn] = []
        self._hear_restores: list[HearRestore] = []

    def started(self, conductor: Conductor, lane_jobs: LaneJobs, session: SessionUse, tables: StateTables) -> None:
        """The instance says what it consists of."""
        self._conductor, self._lane_jobs, self._session, self._tables = conductor, lane_jobs, session, tables

    # -- to listen -----------------------------------------------------------------------------------------------------

    def watch_turns(self, hear: HearTurn) -> None:
        """Hear of every turn that is accounted for: what it was, what the lanes answered, how many seconds it took."""
        self._hear_turns.append(hear)

    def watch_restores(self, hear: HearRestore) -> None:
        """Hear of every step of a restore, as `RestoreEvents` does."""
        self._hear_restores.append(hear)

    def turned(self, turn: Turn, answers: Mapping[int, LaneAnswer], seconds: float) -> None:
        """A turn is accounted for; on the conductor's thread."""
        for hear in self._hear_turns:
            hear(turn, answers, seconds)

    def restored(self, progress: RestoreProgress, what: str) -> None:
        """A restore has come a step further."""
        for hear in self._hear_restores:
            hear(progress, what)

    # -- to look -------------------------------------------------------------------------------------------------------

    @property
    def tasks(self) -> dict[TaskId, int]:
        """The lane of each task that the instance has, whatever state it is in."""
        return {} if self._conductor is None else self._conductor.owners

    @property
    def runs_turns(self) -> bool:
        """Whether a turn is under way in any lane."""
        return self._conductor is not None and self._conductor.runs_turns

    @property
    def looks(self) -> int:
        """How often it has asked the brokers whether there is anything to read."""
        return 0 if self._conductor is None else self._conductor.looks

    @property
    def membership(self) -> Membership | None:
        """The last generation of the group that it was part of."""
        return None if self._conductor is None else self._conductor.membership

    @property
    def generation(self) -> int:
        """The generation whose tasks it runs; -1 before the first."""
        adopted = None if self._conductor is None else self._conductor.tasks.adopted
        return -1 if adopted is None else adopted.generation

    @property
    def fetched(self) -> Mapping[TopicPartition, int]:
        """How far input partitions are read, processed or not."""
        return {} if self._conductor is None else dict(self._conductor.tasks.positions.fetched)

    @property
    def lane_jobs(self) -> LaneJobs:
        """Its lanes and their jobs on Spark."""
        if self._lane_jobs is None:
            raise RuntimeError("the instance has no lanes before its start")
        return self._lane_jobs

    @property
    def listening(self) -> list[Address | None]:
        """Where its lanes answer readers, and the driver those who look for a lane; the last is None before there is a table."""
        locator = None if self._tables is None else self._tables.locator_address
        return [*(self.lane_jobs.query_address(lane) for lane in self.lane_jobs.lanes), locator]

    @property
    def session(self) -> SessionUse:
        """The session of Spark that it runs on."""
        if self._session is None:
            raise RuntimeError("the instance has no session before its start")
        return self._session
