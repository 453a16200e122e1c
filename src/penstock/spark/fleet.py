"""All lanes of an application, and how one turn runs over them: one Spark task, or a shuffle and a job for each lane."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path

from pyspark import RDD
from pyspark.sql import SparkSession

from penstock.ids import TaskId, TopicPartition
from penstock.spark.allocation import Allocation
from penstock.spark.answers import read_answer
from penstock.spark.internals import groups_waiting, has_ended, is_cut_off, split_place, yielding_bytes
from penstock.spark.lanes import Lane, close_lanes, shuffled_bytes
from penstock.spark.messages import (
    Application,
    Committed,
    Failure,
    LaneAnswer,
    OpenTurn,
    ProcessTurn,
    TaskWork,
    UpstreamWork,
    even_shares,
    read_by,
)
from penstock.spark.placement import (
    SessionStoppedError,
    choose_places,
    executors,
    host_of,
    is_local,
    wait_for_executors,
)
from penstock.spark.scheduling import POOL, CoreWaits
from penstock.spark.updaters import Updaters
from penstock.spark.worker import close_lane, packed, run_stage, run_turn, warm_stage
from penstock.state.directory import site_here

_log = logging.getLogger(__name__)

# How long a turn waits for an executor when all of them are gone, and for a lane to close.
_RESTART_SECONDS = 10.0

# From a new session to its first executor, in the place of one that has ended.
_RENEW_SECONDS = 60.0

# A turn that takes longer is looked at, and then as often: whether its lanes wait for a core.
_LOOK_SECONDS = 1.0

# With a local master a Spark task takes about 16 ms of the JVM's CPU, whatever it does: no more than keep the cores busy.
_STAGE_TASKS_PER_CORE = 2

# What Spark says where a worker could not even begin: no use to try it again.
_BROKEN_PYTHON = ("ModuleNotFoundError", "ImportError", "PYTHON_VERSION_MISMATCH", "Cannot run program")


class Fleet:
    """The lanes of one application on one Spark session."""

    def __init__(self, spark: SparkSession, application: Application, names: Sequence[str]) -> None:
        self._spark = spark.sparkContext
        self._application = application
        self._packed = packed(application)
        self._pool = application.config.spark_configs.get(POOL)
        self._is_elastic = Allocation.of(dict(self._spark.getConf().getAll())) is not None
        self._empty: set[int] = set()
        self.waits = CoreWaits(lambda: groups_waiting(self._spark))
        places = choose_places([None] * len(names), executors(self._spark))
        self.lanes = {index: self._lane(index, name, place) for index, (name, place) in enumerate(zip(names, places))}
        self.updaters = Updaters(self._spark, application, self._packed)
        self._answered: dict[int, LaneAnswer] = {}
        self._sockets: set[Path] = set()

    def warm_up(self) -> None:
        """Start the workers that run what comes before a shuffle, beside all else there is to do at the start."""
        if self._application.plan.shuffled:
            threading.Thread(target=self._warm_up, name=f"{self._application.client_id}-warm-up", daemon=True).start()

    def _warm_up(self) -> None:
        workers = max(1, int(self._spark.defaultParallelism))
        self._spark.setLocalProperty("spark.job.description", f"{self._application.client_id}: warm up")
        try:
            yielding_bytes(self._spark.parallelize(range(workers), workers), partial(warm_stage, self._packed)).collect()
        except Exception as exc:  # noqa: BLE001 - what is wrong shows when there is work to do
            _log.debug("workers could not be started in advance: %s", exc)

    def _lane(self, index: int, name: str, place: str | None) -> Lane:
        return Lane(self._spark, name, place, f"{self._application.config['application.id']}-{index + 1}", self._pool)

    def add_lane(self, index: int, name: str) -> None:
        """One more lane, on the executor with the fewest; it owns nothing before the next opening."""
        places = choose_places([*(lane.executor for lane in self.lanes.values()), None], executors(self._spark))
        self.lanes = {**self.lanes, index: self._lane(index, name, places[-1])}

    def remove_lane(self, index: int, timeout: float | None = _RESTART_SECONDS) -> None:
        """Close what a lane keeps open, then the lane."""
        self._close_lanes([index], timeout)
        close_lanes([self.lanes[index]], timeout)
        self.lanes = {i: lane for i, lane in self.lanes.items() if i != index}

    def replace_application(self, application: Application) -> None:
        """Run another plan: lanes open it anew, and close what they had of the old one."""
        self._application = application
        self._packed = packed(application)
        self._empty.clear()
        self.updaters.replace_application(application, self._packed)

    @property
    def hosts(self) -> dict[int, str]:
        """The host of each lane; all the same where there is only one machine."""
        return {index: "" if lane.executor is None else host_of(lane.executor) for index, lane in self.lanes.items()}

    @property
    def is_well_placed(self) -> bool:
        """Whether every lane is on an executor that lives, and none is crowded while another has room.

        SessionStoppedError where nothing lives any more.
        """
        self._check_session()
        places = [lane.executor for lane in self.lanes.values()]
        there = executors(self._spark)
        return not there or choose_places(places, there) == places

    def place(self) -> None:
        """Give lanes whose executor is gone another one, and use executors that have come; called between turns."""
        self._check_session()
        if is_local(self._spark):
            return
        there = executors(self._spark) or wait_for_executors(self._spark, _RESTART_SECONDS)
        places = dict(zip(self.lanes, choose_places([lane.executor for lane in self.lanes.values()], there)))
        moving = {index: place for index, place in places.items() if place != self.lanes[index].executor}
        # What moves away from an executor that lives is closed there: it would keep its folders locked.
        self._close_lanes([index for index in moving if self.lanes[index].executor in there], _RESTART_SECONDS)
        for index, place in moving.items():
            lane = self.lanes[index]
            _log.info("%s moves from %s to %s", lane.name, lane.executor, place)
            lane.move(place)

    def open(self, owned: Mapping[int, Mapping[TaskId, Committed]], seconds: float = 2.0) -> dict[int, LaneAnswer]:
        """Let each lane own exactly its tasks; called again until nothing is restoring.

        With dynamic allocation a lane that has nothing, and is to have nothing, is not asked: it would keep an executor, or have
        Spark ask for one. Its worker may be gone with its executor, but has left nothing open.
        """
        if self._is_elastic:
            owned = {lane: tasks for lane, tasks in owned.items() if tasks or lane not in self._empty}
        turns = {
            lane: self.lanes[lane].submit(
                partial(
                    run_turn, OpenTurn(self._application.key, lane, dict(tasks), self._packed, seconds, self.lanes[lane].executor)
                ),
                f"{self.lanes[lane].name}: open {', '.join(map(str, tasks)) or 'nothing'}",
                read_answer,
            )
            for lane, tasks in owned.items()
        }
        answers = self._answers(turns)
        self._answered.update(answers)
        self._empty -= answers.keys()
        self._empty |= {lane for lane, a in answers.items() if not owned[lane] and a.failure is None and not a.lost}
        self._sockets |= {Path(a.query_address) for a in answers.values() if isinstance(a.query_address, str)}
        return answers

    def process(
        self,
        work: Mapping[int, Mapping[TaskId, TaskWork]],
        upstream: Sequence[UpstreamWork],
        owners: Mapping[TaskId, int],
        group_metadata: bytes,
        global_ends: Mapping[TopicPartition, int],
        description: str,
        *,
        with_metrics: bool = True,
    ) -> dict[int, LaneAnswer]:
        """Run one turn; lanes with nothing to do are not asked."""
        in_lane = upstream if len(work) <= 1 else ()
        try:
            shuffled = self._shuffle(upstream, owners) if upstream and not in_lane else None
        except Exception:
            self._check_session()
            raise
        stages = () if shuffled is None else tuple(TaskId(part.subtopology, part.partition) for part in upstream)
        turns, read = {}, read_by(upstream)
        for lane, tasks in work.items():
            turn = ProcessTurn(
                *(self._application.key, lane, dict(tasks), tuple(in_lane), group_metadata, dict(global_ends), with_metrics),
                *(stages, read),
            )
            name = f"{self.lanes[lane].name}: {description}"
            if shuffled is None:
                turns[lane] = self.lanes[lane].submit(partial(run_turn, turn), name, read_answer)
            else:
                turns[lane] = self.lanes[lane].submit_partition(shuffled, lane, partial(run_turn, turn), name, read_answer)
        return self._answers(turns)

    @property
    def application(self) -> Application:
        """What the lanes run."""
        return self._application

    def is_on_this_host(self, lane: int) -> bool:
        """Whether the files of a lane are on the driver's host."""
        return self.lanes[lane].executor is None or self.site_of(lane) == site_here()

    def site_of(self, lane: int) -> str:
        """Where the files of a lane are, as `site_here` names it there; empty while it is not known."""
        answer = self._answered.get(lane)
        return "" if answer is None else answer.site

    def lane_on(self, host: str) -> int | None:
        """A lane on a host; None where there is none."""
        return next((index for index, found in self.hosts.items() if found == host), None)

    def query_address(self, lane: int) -> str | tuple[str, int] | None:
        """Where a lane answers readers; None while it is not open."""
        answer, executor = self._answered.get(lane), self.lanes[lane].executor
        if answer is None or answer.query_address is None:
            return None
        if isinstance(answer.query_address, str):
            return answer.query_address
        return "localhost" if executor is None else split_place(executor)[0], answer.query_address

    def check_session(self) -> None:
        """SessionStoppedError where the session was stopped here or its JVM is gone: asks nobody, so that it costs nothing.

        That a session has ended by itself in a JVM that lives shows when something is asked of it (`has_ended`).
        """
        if is_cut_off(self._spark):
            raise SessionStoppedError

    @property
    def has_ended(self) -> bool:
        """Whether the session has ended, by whatever: nothing can be asked of lanes any more."""
        return has_ended(self._spark)

    def forsake(self) -> None:
        """In the place of `close` where the session has ended: asks nothing of it, and ends what is left of its workers here."""
        self.updaters.forsake()
        for lane in self.lanes.values():
            lane.forsake()
        self._answered.clear()
        self._empty.clear()
        self._remove_sockets()
        self._sockets.clear()

    def renew(self, spark: SparkSession) -> None:
        """Go on on another session after the end of the last one: lanes of the same numbers and names, with nothing open.

        Called by the thread that opens lanes, which has to open all of them next. NoExecutorsError, or what Spark says, where
        lanes cannot be made now: it may be called again, with the same session or with yet another.

        1. End what is left of the old workers on this host: they may still have stores open, and be about to commit.
        2. Wait for executors.
        3. Make the lanes.
        """
        self.forsake()
        self._spark = spark.sparkContext
        self.updaters.renew(self._spark)
        names = {index: lane.name for index, lane in self.lanes.items()}
        there = wait_for_executors(self._spark, _RENEW_SECONDS)
        made: dict[int, Lane] = {}
        try:
            for (index, name), place in zip(names.items(), choose_places([None] * len(names), there)):
                made[index] = self._lane(index, name, place)
        except BaseException:
            for lane in made.values():
                lane.forsake()
            raise
        self.lanes = made

    def close(self, timeout: float | None = None) -> None:
        """Close what the lanes keep open, then the lanes."""
        self.updaters.close(timeout)
        self._close_lanes(list(self.lanes), timeout)
        close_lanes(self.lanes.values(), timeout)
        self._remove_sockets()

    def _remove_sockets(self) -> None:
        """A worker that was killed, or that Spark has retired, could not remove the folder of its socket."""
        for folder in {path.parent for path in self._sockets if path.parent.name.startswith("penstock-")}:
            shutil.rmtree(folder, ignore_errors=True)

    def _answers(self, turns: Mapping[int, Future[LaneAnswer]]) -> dict[int, LaneAnswer]:
        """What each lane said; a job that failed as a whole (a worker or an executor died) counts as a lost lane."""
        answers, waiting = {}, set(turns.values())
        while waiting:
            _, waiting = wait(waiting, _LOOK_SECONDS)
            self.waits.look(self.lanes[lane].name for lane, future in turns.items() if future in waiting)
        for lane, future in turns.items():
            try:
                answers[lane] = future.result()
            except Exception as exc:  # noqa: BLE001 - Spark reports a dead worker as one of many exceptions
                stopped = has_ended(self._spark)
                failure = Failure("SessionStopped", str(exc), str(exc)) if stopped else _failure_of_job(str(exc))
                answers[lane] = LaneAnswer("gone", lost=True, failure=failure)
        return answers

    def _check_session(self) -> None:
        if has_ended(self._spark):
            raise SessionStoppedError

    def _close_lanes(self, indices: Iterable[int], timeout: float | None) -> None:
        closing = [
            self.lanes[index].submit(partial(close_lane, self._application.key, index), f"{self.lanes[index].name}: close", bytes)
            for index in indices
        ]
        for future in closing:
            try:
                future.result(timeout)
            except Exception:  # noqa: BLE001, S112 - a worker that is gone has nothing left to close
                continue

    def _shuffle(self, upstream: Sequence[UpstreamWork], owners: Mapping[TaskId, int]) -> RDD[bytes]:
        """The map stage that all lanes share: run once, its blobs sorted by lane."""
        plan = self._application.plan
        targets: dict[TopicPartition, int] = {}
        for task_id, lane in owners.items():
            for topic in plan.subtopologies[task_id.subtopology].source_topics:
                if topic in plan.shuffled:
                    targets[TopicPartition(topic, task_id.partition)] = lane
        stage = partial(_stage, self._packed, targets)
        shares = even_shares(upstream, _STAGE_TASKS_PER_CORE * max(1, int(self._spark.defaultParallelism)))
        return shuffled_bytes(self._spark.parallelize(shares, len(shares)), stage, max(self.lanes) + 1)


def _stage(
    application: bytes, targets: Mapping[TopicPartition, int], rows: Iterator[Sequence[UpstreamWork]]
) -> Iterator[tuple[int, bytes]]:
    for share in rows:
        for work in share:
            yield from run_stage(application, targets, work)


def _failure_of_job(text: str) -> Failure:
    broken = next((line.strip() for line in text.splitlines() if any(sign in line for sign in _BROKEN_PYTHON)), None)
    if broken is None:
        return Failure("LaneLost", text.splitlines()[0], text)
    advice = "install penstock-streams there, or send it along (running-on-a-cluster.md)"
    message = f"the executors' Python cannot run penstock: {broken}; {advice}"
    return Failure("StreamsError", message, text)
