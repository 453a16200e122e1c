"""A lane while it stays for many turns: which of its tasks have something to do, and the turn that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from penstock.ids import TaskId, TopicPartition
from penstock.kafka.follow import Taken
from penstock.spark.messages import LaneAnswer, ProcessTurn, Stay
from penstock.spark.worker.lane_tasks import LaneTasks
from penstock.spark.worker.stay import turn_of

# Global tables are read by queries too: so soon they are brought up to date while no record comes that reads them.
_GLOBALS_EVERY_MS = 100

RunTurn = Callable[[ProcessTurn, Taken, LaneAnswer], None]


class Residence:
    """The tasks of a stay, which are the same from its first turn to its last.

    `run` does a turn with its commit; `refresh` brings the global tables up to the ends of their topics between two turns.
    """

    def __init__(
        self,
        tasks: LaneTasks,
        asked: ProcessTurn,
        stay: Stay,
        run: RunTurn,
        refresh: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        self._tasks, self._asked, self._run, self._refresh = tasks, asked, run, refresh
        self._globals, self._refreshed_ms = asked.global_ends, 0
        own, fed = tasks.own_inputs(), tasks.fed_inputs()
        self._own, self._fed = {task: own[task] for task in stay.tasks}, {task: fed[task] for task in stay.tasks}
        self._timers: dict[TaskId, int | None] = {task: tasks.running[task].task.next_timer() for task in stay.tasks}
        self._idle: dict[TaskId, int | None] = {task: tasks.idle_deadline(task) for task in stay.tasks}
        self._behind: dict[TaskId, list[TopicPartition]] = {}
        """Tasks with records that wait for those of other partitions, which the brokers have."""
        self._uneven = {task for task in stay.tasks if self._is_behind(task, stay.positions)}
        """Tasks behind a shuffle that nothing came for: they have not committed how far it was read."""

    def next_timer_ms(self) -> int | None:
        """When the next timer is due, by the clock of the day."""
        return min((at for at in (*self._timers.values(), *self._idle.values()) if at is not None), default=None)

    def due(self, now_ms: int) -> list[TaskId]:
        """The tasks whose timers are due, or who need not wait any longer for a partition that has nothing after all."""
        if self._globals and now_ms - self._refreshed_ms >= _GLOBALS_EVERY_MS:
            self._globals, self._refreshed_ms = self._tasks.global_ends(), now_ms
            self._refresh(self._globals)
        is_at_end = self._tasks.follower.is_at_end
        return [
            task
            for task, timer in self._timers.items()
            if any(at is not None and at <= now_ms for at in (timer, self._idle[task]))
            or (task in self._behind and all(map(is_at_end, self._behind[task])))
        ]

    @property
    def is_uneven(self) -> bool:
        """Whether tasks behind a shuffle are at different positions."""
        return bool(self._uneven)

    def behind(self) -> dict[TopicPartition, dict[TopicPartition, int]]:
        """Where those tasks are that nothing came for."""
        return self._tasks.fed_positions(self._uneven)

    def _is_behind(self, task: TaskId, positions: Mapping[TopicPartition, int]) -> bool:
        found = self._tasks.fed_positions([task]).values()
        return any(at < positions.get(source, at) for fed in found for source, at in fed.items())

    def turn(self, taken: Taken, due: Iterable[TaskId], levels: bool) -> LaneAnswer:
        """One turn of what has come; a task that the shuffle brings nothing waits with its commit until one that levels."""
        answer = LaneAnswer("")
        given = self._own, self._fed, self._tasks.upstream_of, self._lags_of
        queued = {task for task, of in self._fed.items() if of and self._tasks.running[task].task.has_records_queued}
        to_commit = queued | self._fed.keys() if levels else queued
        turn = turn_of(self._asked, taken, due, *given, self._tasks.follower.positions, to_commit)
        if self._globals:  # a record finds the tables as they were when it had come, as in any turn
            turn = replace(turn, global_ends=self._tasks.global_ends())
        self._run(turn, taken, answer)
        done = answer.timers.keys()
        self._uneven = (self._uneven | turn.optional) - done
        self._timers.update(answer.timers)
        self._idle.update(answer.idle_until)
        for task, work in turn.work.items():
            behind = [partition for partition, lag in work.lags.items() if lag]
            if behind and self._tasks.running[task].task.has_records_queued:
                self._behind[task] = behind
            else:
                self._behind.pop(task, None)
        return answer

    def _lags_of(self, task: TaskId) -> Mapping[TopicPartition, int]:
        """Whether brokers have more of what a task reads; who reads one partition never asks."""
        own = self._own[task]
        if len(own) + len(self._fed[task]) < 2:
            return dict.fromkeys(own, 0)
        return {partition: 0 if self._tasks.follower.is_at_end(partition) else 1 for partition in own}
