"""A lane, seen from its worker process: what it keeps open from turn to turn, and the steps of a turn.

The module is imported by name in the worker, so `_LANES` lives as long as the process does; a global of `__main__` would
be pickled by value and be new in every task.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from pyspark import TaskContext

from penstock.columns.columns import count_of
from penstock.errors import StreamsError, TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.client_metrics import PRODUCER
from penstock.kafka.clients import producer_config
from penstock.kafka.follow import Taken
from penstock.kafka.produce import LaneProducer
from penstock.log_lines import kept_lines
from penstock.metrics.transfer import MetricsUpdate
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.runtime.flow import Flow
from penstock.runtime.task import TaskCommit
from penstock.runtime.task_metrics import TaskCounts
from penstock.spark.answers import write_answer
from penstock.spark.batch import ShuffledBatch
from penstock.spark.blobs import Received, batch_blob, checksum, counts_blob, end_blob, failure_blob, flow_blob, read_blobs
from penstock.spark.hosts import host_of
from penstock.spark.internals import cloudpickle, is_executor, own_executor_id
from penstock.spark.messages import Application, Failure, LaneAnswer, OpenTurn, ProcessTurn, Stay, UpstreamWork
from penstock.spark.queries.query_listener import QueryListener
from penstock.spark.worker.busy_nodes import BusyNodes
from penstock.spark.worker.current_work import CurrentWork
from penstock.spark.worker.idle_clients import IdleClients
from penstock.spark.worker.lane_tasks import LaneTasks
from penstock.spark.worker.residence import Residence
from penstock.spark.worker.stay import stay
from penstock.spark.worker.upstream import side_target
from penstock.spark.worker.write_turn import TurnPart, write_turn
from penstock.state.directory import site_here
from penstock.usage import own_usage
from penstock.wire import Codec

_LANES: dict[tuple[str, int], LaneWorker] = {}
_LOOK_EVERY = 60.0
# Records are given no more of a turn than this, so that with its commit it takes three seconds at most: what was planned for less
# may suddenly cost more.
_LONGEST_TURN = 1.5
_looked_at = time.monotonic()


def run_turn(turn: OpenTurn | ProcessTurn, rows: Iterator[Any]) -> Iterator[bytes]:
    """One turn of a lane, and its answer as bytes. `rows` are the blobs of a shuffle, or one row that means nothing."""
    blobs = [row for row in rows if isinstance(row, bytes)]  # all of it: nothing is begun before the shuffle has been read
    logs = kept_lines()
    answer = LaneAnswer(f"{socket.gethostname()}:{os.getpid()}", own_executor_id())
    try:
        received = read_blobs(blobs)
        received.check(turn.stages if isinstance(turn, ProcessTurn) else {})
        _run(turn, received, answer)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # noqa: BLE001 - every failure goes back to the conductor, who decides; SystemExit too
        answer.failure = Failure.of(exc)
        _drop_lane(turn)
    answer.logs += logs.take()
    used = own_usage()
    answer.usage = used.seconds, used.memory
    yield write_answer(answer)


def _run(turn: OpenTurn | ProcessTurn, received: Received, answer: LaneAnswer) -> None:
    _refuse_second_attempts()
    if isinstance(turn, OpenTurn):
        _refuse_wrong_executor(turn)
        lane = _lane_for(turn)
        with lane.idle.in_use, lane.queries.turn, _no_collections(), lane.work.turn("open"):
            lane.open(turn, answer)
        answer.query_address, answer.site = lane.queries.address, site_here()
    elif (turn.key, turn.lane) not in _LANES:
        answer.lost = True
    else:
        lane = _LANES[turn.key, turn.lane]
        with lane.idle.in_use:
            if turn.stay is not None:
                lane.stay(turn, turn.stay, answer)
                return
            lane.tasks.follower.rest()
            with lane.queries.turn, _no_collections(), lane.work.turn("fetch"):
                lane.process(turn, received.batches, answer, received.counts)
                if answer.flow is not None:
                    answer.flow.add(received.flow)


def run_stage(
    application: bytes, lanes: Mapping[TopicPartition, int], driver: int, work: UpstreamWork
) -> Iterator[tuple[int, bytes]]:
    """One task before a shuffle: its records as a blob for each target in `lanes`, addressed to the target's lane.

    What is for other targets is left out: they are fed apart. What is not for one target alone (the counts, and what went through
    the topology) goes with what is for `side_target`, so that it is counted once.

    It changes nothing, so that Spark may repeat it; an error of the user's code goes to the driver instead.
    """
    logs = kept_lines()
    try:
        stage, side = _stage_lane(application).tasks, side_target(unpacked(application).plan, work)
        with _no_collections():
            started = time.perf_counter()
            batches, consumed = stage.upstream([work])
            blobs = [(lanes[target], batch_blob(target, batch)) for target, batch in batches.items() if target in lanes]
            counts = stage.take_counts(TaskId(work.subtopology, work.partition), consumed, time.perf_counter() - started)
            if side in lanes:
                blobs.append((lanes[side], counts_blob(counts)))
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # noqa: BLE001 - every failure goes back to the conductor, who decides; SystemExit too
        yield driver, failure_blob(Failure.of(exc))
        yield driver, flow_blob(Flow(logs=logs.take()))
        return
    flow = stage.take_flow() or Flow()
    if side in lanes and flow:
        blobs.append((lanes[side], flow_blob(flow)))
    if told := logs.take():
        blobs.append((driver, flow_blob(Flow(logs=told))))
    yield from blobs
    task, sent, all_of_it = (
        TaskId(work.subtopology, work.partition),
        Counter(lane for lane, _ in blobs),
        checksum(b for _, b in blobs),
    )
    yield from ((lane, end_blob(task, sent[lane], all_of_it)) for lane in sorted({driver, *lanes.values()}))


@contextmanager
def _no_collections() -> Iterator[None]:
    """Columns are lists of many objects that live for a turn: to look through them for cycles costs a third of the turn."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _collect_what_is_new()
        if enabled:
            gc.enable()


def _collect_what_is_new() -> None:
    """Spark has a worker look for cycles in all it has after every task: 30 ms in which it could do a small turn.

    What has survived a turn is put where it is not looked at, and is looked at again every minute.
    """
    global _looked_at
    now = time.monotonic()
    if now - _looked_at > _LOOK_EVERY:
        _looked_at = now
        gc.unfreeze()
    else:
        gc.collect(0)
        gc.freeze()


def warm_stage(application: bytes, rows: Iterator[Any]) -> Iterator[bytes]:
    """Have a worker ready for `run_stage`."""
    list(rows)
    _stage_lane(application)
    yield b""


def _drop_lane(turn: OpenTurn | ProcessTurn) -> None:
    """After a failure nothing is kept: the next opening starts from what is committed, with a producer of a new epoch."""
    lane = _LANES.pop((turn.key, turn.lane), None)
    if lane is not None:
        lane.tasks.close_dirty()
        lane.close()


def close_lane(key: str, lane: int, rows: Iterator[Any]) -> Iterator[bytes]:
    """Close what a lane keeps open."""
    list(rows)
    worker = _LANES.pop((key, lane), None)
    if worker is not None:
        worker.close()
        kept_lines().spill()
    yield b""


class LaneWorker:
    """The open tasks, stores and clients of one lane."""

    def __init__(self, application: Application, lane: int, host: str | None = None) -> None:
        self.application = application
        self.lane = lane
        config = application.config
        self.client_id = f"{application.client_id}-StreamThread-{lane + 1}"
        threading.current_thread().name = self.client_id  # the thread-id of all metrics
        self.tasks = LaneTasks(application, self.client_id)
        transactional_id = application.transactional_id(lane) if config.eos_enabled else None
        producer_id = f"{self.client_id}-producer"
        told = self.tasks.client_metrics(PRODUCER, producer_id)
        self.producer = LaneProducer(producer_config(config, producer_id), transactional_id, told)
        self.work = CurrentWork()
        self.busy = BusyNodes(self.work, self.client_id) if config["application.server"] else None
        self.queries = QueryListener(application, self.tasks, host, self.work)
        self.idle = IdleClients(self._rest, self.client_id)

    def open(self, turn: OpenTurn, answer: LaneAnswer) -> None:
        """Own exactly the tasks of the turn; restore as much as its time allows."""
        before = self.tasks.ids
        self.tasks.own(turn.tasks)
        answer.begun = tuple(self.tasks.ids - before)
        answer.created, answer.closed = len(answer.begun), len(before - self.tasks.ids)
        if turn.seconds:
            self._restore(turn.seconds, answer)
        answer.opened = tuple(self.tasks.running)
        answer.timers = {task_id: opened.task.next_timer() for task_id, opened in self.tasks.running.items()}
        answer.metrics = self._metrics()

    def _restore(self, seconds: float, answer: LaneAnswer) -> None:
        self.work.step = "restore"
        before = set(self.tasks.running)
        self.tasks.restore(time.monotonic() + seconds, answer)
        answer.opened = tuple(self.tasks.running)
        for task_id in self.tasks.running.keys() - before:
            answer.timers[task_id] = self.tasks.running[task_id].task.next_timer()

    def process(
        self,
        turn: ProcessTurn,
        fed: dict[TopicPartition, ShuffledBatch],
        answer: LaneAnswer,
        counts: Sequence[TaskCounts] = (),
    ) -> None:
        """Run one turn. `counts` is what tasks before the shuffle have counted that belong to this lane.

        1. Fetch, and run what comes before a shuffle.
        2. Hand the records to their tasks; process and punctuate.
        3. Write outputs and changelogs, with the offsets, as one transaction.
        4. Make the stores' changes durable.
        """
        if any(task_id not in self.tasks.running for task_id in turn.work):
            answer.lost = True
            return
        clock = _StepClock(answer.seconds)
        try:
            for counted in counts:
                self._count(counted.processed, answer)
                self.tasks.add_counts(counted)
                answer.seconds["stage"] = answer.seconds.get("stage", 0.0) + counted.seconds
            fed = self._fetch(turn, fed, answer)
            answer.short = self.tasks.short
            clock.lap("fetch")
            self.work.step = "process"
            commits = self._process(turn, fed, answer)
            clock.lap("process")
            self.work.step = "commit"
            self._commit(turn, commits, answer)
            clock.lap("commit")
            self.work.step = "store"
            for commit in commits:
                self.tasks.post_commit(commit.task_id, self.producer)
            clock.lap("store")
            if turn.restore_seconds:
                self._restore(turn.restore_seconds, answer)
            answer.flow = self.tasks.take_flow()
            if answer.flow is not None and self.busy is not None:
                answer.flow.busy = self.busy.take()
            if turn.with_metrics:
                answer.metrics = self._metrics()
        except BaseException:
            self.producer.abort()
            self.tasks.close_dirty()
            raise

    def stay(self, turn: ProcessTurn, asked: Stay, answer: LaneAnswer) -> None:
        """Turn after turn, until it is time to go (`stay.py`)."""
        if any(task_id not in self.tasks.running for task_id in asked.tasks):
            answer.lost = True
            return
        self.queries.progress = asked.number, {}
        residence = Residence(self.tasks, turn, asked, self._turn_of_stay, self._refresh_globals)
        self.queries.leave.clear()
        stay(
            *(residence, self.tasks.follower, asked, answer, lambda: self.queries.called_back >= asked.number),
            sleep=self.queries.leave.wait,
        )
        answer.behind = residence.behind()
        if turn.with_metrics:
            answer.metrics = self._metrics()

    def _turn_of_stay(self, turn: ProcessTurn, taken: Taken, answer: LaneAnswer) -> None:
        with self.queries.turn, _no_collections(), self.work.turn("process"), self.tasks.reading(taken):
            self.process(turn, {}, answer)
        if answer.lost:
            raise TaskMigratedError("tasks of a stay are not open any more; they are opened again")
        number, offsets = self.queries.progress
        self.queries.progress = number, {**offsets, **answer.offsets}

    def _refresh_globals(self, ends: Mapping[TopicPartition, int]) -> None:
        with self.queries.turn:
            self.tasks.catch_up_globals(ends)

    def close(self) -> None:
        """Close the tasks and clients."""
        self.idle.close()
        if self.busy is not None:
            self.busy.close()
        self.queries.close()
        self.tasks.close()
        self.producer.close()
        self.application.config.close_default_serdes()

    def _metrics(self) -> MetricsUpdate | None:
        """What is new among the metrics, also of clients that nobody has polled lately."""
        self._serve()
        return self.tasks.metrics.update()

    def _rest(self) -> None:
        """A lane that has had nothing to do for long fetches nothing."""
        self.tasks.follower.rest()
        self._serve()

    def _serve(self) -> None:
        self.tasks.serve()
        self.producer.serve()

    # -- steps of a turn -----------------------------------------------------------------------------------------------

    def _fetch(
        self, turn: ProcessTurn, fed: dict[TopicPartition, ShuffledBatch], answer: LaneAnswer
    ) -> dict[TopicPartition, ShuffledBatch]:
        parts = {target: [batch] for target, batch in fed.items()}
        self.tasks.catch_up_globals(turn.global_ends)
        batches, consumed = self.tasks.upstream(turn.upstream)
        self._count(consumed, answer)
        for target, batch in batches.items():
            parts.setdefault(target, []).append(batch)
        answer.records += self.tasks.fetch(turn.work)
        wanted = {partition for work in turn.work.values() for partition in work.fed}
        whole = {target: ShuffledBatch.concat(batches) for target, batches in parts.items() if target in wanted}
        answer.records += sum(batch.records for batch in whole.values())
        return whole

    @staticmethod
    def _count(before_shuffle: int, answer: LaneAnswer) -> None:
        """Records of input topics that a task before a shuffle has read and processed, each in one go."""
        answer.records += before_shuffle
        answer.processed += before_shuffle

    def _process(self, turn: ProcessTurn, fed: Mapping[TopicPartition, ShuffledBatch], answer: LaneAnswer) -> list[TaskCommit]:
        commits = []
        ends = time.monotonic() + _LONGEST_TURN
        brought = {t: w for t, w in turn.work.items() if t not in turn.optional or not fed.keys().isdisjoint(w.fed)}
        for number, (task_id, work) in enumerate(brought.items()):
            now = time.monotonic()
            until = now + max(0.0, ends - now) / (len(brought) - number)  # what one does not need is for the others
            commit, processed = self.tasks.process(task_id, work, fed, turn.read, until)
            answer.processed += processed
            answer.postponed += self.tasks.postponed(task_id)
            answer.timers[task_id] = commit.next_timer
            answer.idle_until[task_id] = self.tasks.idle_deadline(task_id)
            answer.offsets.update(commit.offsets)
            commits.append(commit)
        answer.punctuated, answer.seconds["punctuate"] = self.tasks.take_punctuations()
        return commits

    def _commit(self, turn: ProcessTurn, commits: Sequence[TaskCommit], answer: LaneAnswer) -> None:
        offsets: dict[TopicPartition, OffsetAndMetadata] = {p: o for commit in commits for p, o in commit.offsets.items()}
        answer.produced = sum(count_of(commit.outputs) + count_of(commit.changelogs) for commit in commits)
        if not answer.produced and not offsets:
            return
        parts = [TurnPart(self.tasks.running[c.task_id].task.collector, c.outputs, c.changelogs) for c in commits]
        if self.application.config.eos_enabled:
            write_turn(self.producer, parts, partial(self.producer.commit, offsets, turn.group_metadata))
        else:
            write_turn(self.producer, parts, self.producer.flush)  # the conductor commits the offsets: only a member may


class _StepClock:
    """How long each step of a turn took."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self._seconds[step] = self._seconds.get(step, 0.0) + now - self._last
        self._last = now


def _lane_for(turn: OpenTurn) -> LaneWorker:
    lane = _LANES.get((turn.key, turn.lane))
    if lane is None:
        for key in [key for key in _LANES if key[1] == turn.lane and key[0].rpartition("#")[0] == turn.key.rpartition("#")[0]]:
            _LANES.pop(key).close()  # an earlier start of the same application in this worker
        if turn.application is None:
            raise StreamsError(f"lane {turn.lane} was opened without its application")
        host = None if turn.executor is None else host_of(turn.executor)
        lane = _LANES[turn.key, turn.lane] = LaneWorker(unpacked(turn.application), turn.lane, host)
    return lane


_PACKED = Codec()
_APPLICATIONS: dict[int, Application] = {}
_STAGES: dict[str, Any] = {}


class _StageLane:
    """What a worker needs for tasks before a shuffle: no producer, no stores."""

    def __init__(self, application: Application) -> None:
        self.tasks = LaneTasks(application, f"{application.client_id}-stage", in_stage=True)


def _stage_lane(application: bytes) -> _StageLane:
    known = unpacked(application)
    if known.key not in _STAGES:
        _STAGES.clear()
        _STAGES[known.key] = _StageLane(known)
    lane: _StageLane = _STAGES[known.key]
    return lane


def unpacked(application: bytes) -> Application:
    """The application, unpickled once per worker; its functions may come from modules only the driver's path has.

    It is the user's code, which the driver sends with the function that Spark runs: who could forge it could forge that.
    """
    key = hash(application)
    if key not in _APPLICATIONS:
        _APPLICATIONS.clear()
        import_path, code = _PACKED.decode(application)
        for entry in import_path:
            if entry not in sys.path and os.path.isdir(entry):
                sys.path.append(entry)
        _APPLICATIONS[key] = cloudpickle.loads(code)
    return _APPLICATIONS[key]


def packed(application: Application) -> bytes:
    """The application as lanes take it."""
    return _PACKED.encode((tuple(application.import_path), cloudpickle.dumps(application)))


def _refuse_second_attempts() -> None:
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise TaskMigratedError(
            "a second attempt of a Spark task does no work: the conductor decides on retries, with fresh positions"
        )


def _refuse_wrong_executor(turn: OpenTurn) -> None:
    """Where Spark did not keep to the lane's place, nothing is opened: the lane's state, and its locks, are elsewhere."""
    if not is_executor(turn.executor):
        raise TaskMigratedError(
            f"lane {turn.lane} belongs on {turn.executor} and came to executor {own_executor_id()}; it is opened anew"
        )
