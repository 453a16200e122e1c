"""`KafkaStreams`: an application that runs a topology."""

from __future__ import annotations

import enum
import logging
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from penstock.client.assignment import GroupAssignor
from penstock.client.conductor import Conductor, Events
from penstock.client.positions import Positions
from penstock.client.preparation import Prepared, prepare
from penstock.client.standby_listener import StandbyUpdateListener, standby_events
from penstock.client.state import State
from penstock.client.units import units_of
from penstock.clock import SystemClock
from penstock.config import StreamsConfig
from penstock.errors import StreamsError, TopologyError
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.clients import admin_config, member_config
from penstock.kafka.membership import GroupMember, MemberInfo
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.fleet import Fleet
from penstock.spark.messages import Application, RestoreProgress
from penstock.spark.session import lanes_of, make_session
from penstock.state.directory import StateDirectory
from penstock.topology.topology import Topology
from penstock.windows import to_ms

_log = logging.getLogger(__name__)

StateListener = Callable[[State, State], None]


class StreamThreadExceptionResponse(enum.Enum):
    """What to do after a failure in a stream thread."""

    REPLACE_THREAD = 0
    SHUTDOWN_CLIENT = 1
    SHUTDOWN_APPLICATION = 2


class StateRestoreListener:
    """Hears how stores are brought back from their changelogs; override what you want to know."""

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """A store begins to be restored."""

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """A part of the changelog is in the store."""

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """The store is complete."""


class KafkaStreams:
    """Runs a topology on Kafka and Spark; also a context manager.

    The pipeline runs on the given SparkSession, or on one made from the config's `spark.*` keys (default `local[*]`).

        with KafkaStreams(builder.build(), {"application.id": "wordcount", "bootstrap.servers": "localhost:9092"}) as streams:
            streams.start()
            ...
    """

    def __init__(self, topology: Topology, config: Mapping[str, Any], spark: Any = None) -> None:
        self._topology = topology
        self._config = StreamsConfig.of(config)
        self._given_spark = spark
        self._spark = spark
        self._state = State.CREATED
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._listener: StateListener | None = None
        self._handler: Callable[[BaseException], StreamThreadExceptionResponse] | None = None
        self._restore_listener: StateRestoreListener | None = None
        self._standby_listener: StandbyUpdateListener | None = None
        self._client_id = self._config["client.id"] or f"{self._config['application.id']}-{uuid.uuid4()}"
        self._directory: StateDirectory | None = None
        self._fleet: Fleet | None = None
        self._member: GroupMember | None = None
        self._conductor: Conductor | None = None
        self._thread: threading.Thread | None = None
        self._paused = False
        self._ended = threading.Event()
        self.failure: BaseException | None = None

    # -- before the start ----------------------------------------------------------------------------------------------

    def set_state_listener(self, listener: StateListener | None) -> None:
        """Call `listener(new, old)` on every change of state."""
        self._refuse_after_start("a state listener")
        self._listener = listener

    def set_uncaught_exception_handler(self, handler: Callable[[BaseException], StreamThreadExceptionResponse]) -> None:
        """Let `handler(error)` decide how to go on after a failure; without one the client shuts down."""
        self._refuse_after_start("an uncaught exception handler")
        self._handler = handler

    def set_global_state_restore_listener(self, listener: StateRestoreListener | None) -> None:
        """Tell `listener` how stores are restored."""
        self._refuse_after_start("a restore listener")
        self._restore_listener = listener

    def set_standby_update_listener(self, listener: StandbyUpdateListener | None) -> None:
        """Tell `listener` how copies of state that others run are kept up to date here."""
        self._refuse_after_start("a standby update listener")
        self._standby_listener = listener

    # -- life ----------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Where the application is in its life."""
        return self._state

    def start(self) -> None:
        """Begin to process; returns when the topics are there and the application has joined its group's protocol.

        1. Lock the state folder, check and create topics, make the plan.
        2. Make or take the SparkSession and its lanes.
        3. Join the group; the conductor starts with the first assignment.
        """
        with self._lock:
            if self._state is not State.CREATED:
                raise StreamsError(f"the application can be started once; it is {self._state.name}")
            self._set_state(State.REBALANCING)
        try:
            self._start()
        except BaseException as exc:
            self.failure = exc
            self._set_state(State.PENDING_ERROR)
            self._release()
            self._set_state(State.ERROR)
            raise

    def _start(self) -> None:
        config = self._config
        self._directory = StateDirectory(config["state.dir"], config["application.id"])
        self._process_id = str(self._directory.initialize_process_id())
        self._admin = Admin(admin_config(config, self._client_id))
        prepared = self._prepared = prepare(self._topology, config, self._admin)
        if self._spark is None:
            self._spark = make_session(config["application.id"], config.spark_configs)
        lanes = lanes_of(self._spark, config["num.stream.threads"])
        names = [f"{self._client_id}-StreamThread-{i + 1}" for i in range(lanes)]
        self._fleet = Fleet(self._spark, self._application(prepared), names)
        self._units = units_of(prepared.plan)
        events = Events(self._on_running, self._on_rebalancing, self._on_failure, self._on_restore)
        events.standbys = standby_events(lambda: self._standby_listener)
        positions = self._positions(prepared)
        conductor = Conductor(config, prepared.plan, self._fleet, self._admin, positions, self._units, events)
        self._conductor = conductor
        conductor.copies.directory = self._directory
        conductor.copies.closed(prepared.plan.tasks())
        if prepared.global_topology is not None:
            topics = set(prepared.global_topology.store_to_topic.values())
            conductor.watch_globals([TopicPartition(t, p) for t in sorted(topics) for p in range(prepared.plan.partitions[t])])
        self._member = conductor.member = conductor.copies.member = GroupMember(
            member_config(config, self._client_id),
            prepared.external_topics,
            lambda: MemberInfo(
                self._process_id, lanes, config["application.server"] or "", *conductor.holdings(), config.client_tags
            ),
            GroupAssignor(config, self._admin, lambda: (self._prepared.plan, self._units)),
            conductor.revoked,
            conductor.assigned,
            f"{self._client_id}-consumer",
        )
        self._thread = threading.Thread(target=self._conduct, name=f"{self._client_id}-conductor", daemon=True)
        self._member.start()
        self._thread.start()
        threading.Thread(target=self._maintain, name=f"{self._client_id}-CleanupThread", daemon=True).start()

    def _application(self, prepared: Prepared) -> Application:
        return Application(
            f"{self._config['application.id']}-{self._process_id}#{uuid.uuid4()}",
            self._config,
            prepared.plan,
            prepared.global_topology,
            self._process_id,
            self._client_id,
            tuple(entry for entry in sys.path if entry),
        )

    def _positions(self, prepared: Prepared) -> Positions:
        group = self._config["application.id"]
        reset = str(self._config.main_consumer_configs(group, self._client_id).get("auto.offset.reset", "earliest"))
        return Positions(prepared.plan, group, self._admin, self._committed, prepared.builder, reset, SystemClock())

    def _committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        assert self._member is not None
        return self._member.committed(partitions)

    def _maintain(self) -> None:
        """Now and then: see whether the topics have changed, and remove the folders of tasks that are long gone."""
        config = self._config
        every = min(config["metadata.max.age.ms"], config["state.cleanup.delay.ms"]) / 1000
        while not self._ended.wait(every):
            try:
                if self._prepared.outdated_by(self._admin.partition_counts()):
                    self._replan()
            except TopologyError as exc:
                if self._conductor is not None:
                    self._conductor.fail(exc)
            except StreamsError as exc:
                _log.warning("the topics could not be looked at now: %s", exc)
            if self._directory is not None:
                self._directory.clean_removed_tasks(config["state.cleanup.delay.ms"])

    def _replan(self) -> None:
        """A pattern matches more topics than at the start: make the plan anew, and have the group share it out."""
        assert self._conductor is not None
        assert self._fleet is not None
        assert self._member is not None
        prepared = prepare(self._topology, self._config, self._admin)
        _log.info("input topics are now %s", ", ".join(prepared.external_topics))
        units = units_of(prepared.plan)
        self._conductor.replace_plan(prepared.plan, self._positions(prepared), units)
        self._fleet.replace_application(self._application(prepared))
        self._prepared, self._units = prepared, units
        self._member.resubscribe(prepared.external_topics)

    def close(self, timeout: timedelta | float | None = None) -> bool:
        """Commit what is processed and stop; True where that was done within `timeout` (timedelta or milliseconds)."""
        seconds = None if timeout is None else to_ms(timeout, "timeout") / 1000  # type: ignore[arg-type]
        with self._lock:
            if self._state.has_completed_shutdown:
                return True
            if not self._state.is_shutting_down:
                self._set_state(State.PENDING_SHUTDOWN)
                threading.Thread(target=self._shut_down, name=f"{self._client_id}-close", daemon=True).start()
        return self._wait_for_end(seconds)

    def clean_up(self) -> None:
        """Delete the local state of the application; only before `start` or after `close`."""
        if self._state.is_running_or_rebalancing or self._state.is_shutting_down:
            raise StreamsError(
                f"the local state can be cleaned up only before the start or after the end; the application is {self._state.name}"
            )
        directory = StateDirectory(self._config["state.dir"], self._config["application.id"])
        directory.clean()
        directory.close()

    def pause(self) -> None:
        """Process nothing until `resume`."""
        self._paused = True
        if self._conductor is not None:
            self._conductor.pause(True)

    def resume(self) -> None:
        """Go on after `pause`."""
        self._paused = False
        if self._conductor is not None:
            self._conductor.pause(False)

    @property
    def is_paused(self) -> bool:
        """Whether the application is paused."""
        return self._paused

    def __enter__(self) -> KafkaStreams:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the conductor's events ----------------------------------------------------------------------------------------

    def _conduct(self) -> None:
        assert self._conductor is not None
        self._conductor.pause(self._paused)
        self._conductor.run()
        if not self._state.is_shutting_down:
            self._set_state(State.PENDING_ERROR)
            self._release()
            self._set_state(State.ERROR)

    def _on_running(self) -> None:
        if self._state is State.REBALANCING:
            self._set_state(State.RUNNING)

    def _on_rebalancing(self) -> None:
        if self._state is State.RUNNING:
            self._set_state(State.REBALANCING)

    def _on_failure(self, error: BaseException) -> bool:
        response = StreamThreadExceptionResponse.SHUTDOWN_CLIENT if self._handler is None else self._handler(error)
        if response is StreamThreadExceptionResponse.REPLACE_THREAD:
            _log.warning("a stream thread failed and is replaced: %s", error)
            return True
        self.failure = error
        _log.error("the application stops after a failure: %s", error, exc_info=error)
        return False

    def _on_restore(self, progress: RestoreProgress, what: str) -> None:
        listener = self._restore_listener
        if what == "start":
            _log.info(
                "task %s: restoring %s from %s, %d to %d",
                progress.task_id,
                progress.store,
                progress.partition,
                progress.start,
                progress.end,
            )
        if listener is None:
            return
        if what == "start":
            listener.on_restore_start(progress.partition, progress.store, progress.start, progress.end)
        elif what == "done":
            listener.on_restore_end(progress.partition, progress.store, progress.restored)
        elif what == "batch":
            listener.on_batch_restored(progress.partition, progress.store, progress.position, progress.restored)
        else:
            if progress.restored:
                listener.on_batch_restored(progress.partition, progress.store, progress.position, progress.restored)
            listener.on_restore_end(progress.partition, progress.store, progress.restored)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _shut_down(self) -> None:
        if self._conductor is not None:
            self._conductor.stop()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        self._release()
        self._set_state(State.NOT_RUNNING)

    def _release(self) -> None:
        """Give back everything in the opposite order; a session that the user gave goes on."""
        self._ended.set()
        if self._conductor is not None:
            self._conductor.copies.standbys.close()
        if self._fleet is not None:
            self._fleet.close(30)
        if self._member is not None:
            self._member.close()
        if self._directory is not None:
            self._directory.close()
        if self._given_spark is None and self._spark is not None:
            self._spark.stop()
            self._spark = None

    def _wait_for_end(self, seconds: float | None) -> bool:
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            while not self._state.has_completed_shutdown:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _set_state(self, new: State) -> None:
        with self._changed:
            old = self._state
            if not old.is_valid_transition(new):
                raise StreamsError(f"invalid transition from {old.name} to {new.name}")
            self._state = new
            self._changed.notify_all()
        _log.info("state %s -> %s", old.name, new.name)
        if self._listener is not None:
            self._listener(new, old)

    def _refuse_after_start(self, what: str) -> None:
        if self._state is not State.CREATED:
            raise StreamsError(f"{what} can be set only before the start; the application is {self._state.name}")


KafkaStreams.State = State  # type: ignore[attr-defined]  # Java's way to say it: KafkaStreams.State.RUNNING
