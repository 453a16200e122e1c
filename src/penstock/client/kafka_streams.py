"""`KafkaStreams`: an application that runs a topology."""

from __future__ import annotations

import enum
import logging
import secrets
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NoReturn

from penstock import __version__
from penstock.client.assignment.group_assignment import GroupAssignor, member_tags, warn_of_settings_of_the_group
from penstock.client.assignment.joining import wait_to_join
from penstock.client.backfill import Backfill
from penstock.client.callbacks import Callbacks
from penstock.client.client_life import ClientLife, ClosedWhileStartingError
from penstock.client.close_options import CloseOptions
from penstock.client.dataframe_tables import DataframeTables, dataframe_sources
from penstock.client.input_lags import InputLags
from penstock.client.inside import Inside
from penstock.client.listeners import StateListener, StateRestoreListener
from penstock.client.metadata import LagInfo, ThreadMetadata, store_lags, thread_metadata
from penstock.client.metrics.application_metrics import ApplicationMetrics
from penstock.client.metrics.prometheus import render
from penstock.client.metrics.reporters import Reporters
from penstock.client.metrics.server import MetricsServer
from penstock.client.notebook import notebook_applications
from penstock.client.preparation import Prepared, prepare
from penstock.client.process_end import process_end
from penstock.client.queries.local_stores import LocalStores
from penstock.client.queries.locations import Locations
from penstock.client.queries.methods import QueryMethods
from penstock.client.queries.queries import Queries
from penstock.client.queries.tables import StateTables
from penstock.client.rates import Rates
from penstock.client.replicas.standby_listener import StandbyUpdateListener, standby_events
from penstock.client.restore_events import RestoreEvents
from penstock.client.scheduling.bounded_run import BoundedProgress, InputEnds
from penstock.client.scheduling.event_loop import EventLoop
from penstock.client.scheduling.event_queue import TICK
from penstock.client.scheduling.events import Events
from penstock.client.scheduling.supervised_thread import ThreadPhase
from penstock.client.scheduling.task_offsets import TaskOffsets
from penstock.client.scheduling.thread_growth import ThreadGrowth
from penstock.client.scheduling.thread_roster import ThreadChange
from penstock.client.session_renewal import renew_session
from penstock.client.state import State
from penstock.client.stream_threads import StreamThread, StreamThreads, ThreadState
from penstock.client.summary import Summary, ThreadRow
from penstock.client.thread_summary import ThreadSummary
from penstock.client.tracing import BatchTraces
from penstock.client.web.running import RunningApplication
from penstock.client.web.service import WebService
from penstock.clock import SystemClock, wall_time
from penstock.config.streams_config import StreamsConfig
from penstock.errors import StreamsError, StreamsNotStartedError, StreamsStoppedError, StreamsTimeoutError, TopologyError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin, MissingTopicError
from penstock.kafka.client_supplier import CLIENT_SUPPLIER
from penstock.kafka.client_supplier import client_supplier as client_supplier_of
from penstock.kafka.clients import admin_config, check_client_settings, consumer_config, member_config, reads_committed
from penstock.kafka.dead_letter_topics import DeadLetterTopics
from penstock.kafka.group_client import GroupClient
from penstock.kafka.group_protocol import DEFAULT_LIMIT
from penstock.kafka.groups import Groups, GroupStatus
from penstock.kafka.membership import SHUTDOWN_REQUESTED, GroupMember, MemberInfo
from penstock.kafka.streams_membership import StreamsMember
from penstock.log_lines import tell_again
from penstock.metrics.registry import Metric, MetricName
from penstock.peers.proofs import PeerKeys
from penstock.pickling import check_picklable
from penstock.query.metadata import HostInfo
from penstock.runtime.node_serdes import check_serdes
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.spark.driver.history_staging import HistoryStaging, delete_history
from penstock.spark.driver.placement import SessionStoppedError
from penstock.spark.driver.session import threads_of
from penstock.spark.driver.session_use import SessionUse, check_session, take_session
from penstock.spark.driver.spark_threads import SparkThreads
from penstock.spark.identity import Identity, identity_for
from penstock.spark.messages import Application, BatchReport, ThreadReport
from penstock.spark.staged_history import Staged
from penstock.state.directory import StateDirectory, delete_shared_history
from penstock.topology.broker_topology import BrokerSubtopology, broker_topology
from penstock.topology.checks import check_before_start
from penstock.topology.specs import SourceSpec
from penstock.topology.topology import Topology, required_topology
from penstock.windows import to_ms

_log = logging.getLogger(__name__)

# Limit for the shutdown of all instances to reach the group.
_SHUTDOWN_SECONDS = 60.0
_MISSING_SECONDS = 3.0
# Limit for an instance to have ready threads before it joins a group with other members.
_JOIN_SECONDS = 60.0
# Limit for `start` to wait for the end of an application that was closed meanwhile.
_CLOSE_SECONDS = 60.0


class StreamThreadExceptionResponse(enum.Enum):
    """The reaction to a failure in a stream thread."""

    REPLACE_THREAD = 0
    SHUTDOWN_CLIENT = 1
    SHUTDOWN_APPLICATION = 2


class KafkaStreams(QueryMethods):
    """Runs a topology on Kafka and Spark; also a context manager, which closes the application at the end of its block.

    `spark` is the SparkSession to run on. Without it the application uses the session of this process. If there is none, it
    makes one from the config's `spark.*` keys (default `local[*]`), which ends with the application.

        with KafkaStreams(builder.build(), {"application.id": "wordcount", "bootstrap.servers": "localhost:9092"}) as streams:
            streams.start()
            ...
    """

    def __init__(self, topology: Topology, config: Mapping[str, Any], spark: Any = None, client_supplier: Any = None) -> None:
        self._topology = required_topology(topology, "KafkaStreams")
        self._config = StreamsConfig.of(config)
        if client_supplier is not None:
            self._config = self._config.with_values({CLIENT_SUPPLIER: client_supplier})
        client_supplier_of(self._config)
        registry = topology.internal_topology_builder.registry
        if not any(isinstance(node, SourceSpec) for node in registry.nodes.values()):
            raise TopologyError("The topology is empty: it must read at least one topic, with stream(), table() or add_source().")
        check_picklable(registry, self._config.originals)
        check_serdes(registry, self._config)
        self._given_spark = spark
        self._session: SessionUse | None = None
        self._handler: Callable[[BaseException], StreamThreadExceptionResponse] | None = None
        self._restore_listener: StateRestoreListener | None = None
        self._standby_listener: StandbyUpdateListener | None = None
        self._client_id = self._config["client.id"] or f"{self._config['application.id']}-{uuid.uuid4()}"
        self._callbacks = Callbacks(self._callback_failed)
        self._life = ClientLife(self._client_id, self._callbacks)
        self._inside = Inside(self._client_id)
        self._web: WebService | None = None
        self._known_locations: Locations | None = None
        self._dataframes: DataframeTables | None = None
        self._query_key = secrets.token_bytes(32)
        self._identity: Identity | None = None
        self._directory: StateDirectory | None = None
        self._spark_threads: SparkThreads | None = None
        self._member: GroupClient | None = None
        self._loop: EventLoop | None = None
        self._thread: threading.Thread | None = None
        self._threads = StreamThreads(self._client_id)
        self._thread_count = threading.RLock()
        self._starting = threading.RLock()
        self._starter: int | None = None
        self._renewing = threading.Lock()
        self._process_id = ""
        self._metrics = ApplicationMetrics(
            self._config,
            self._client_id,
            lambda: self._process_id,
            __version__,
            lambda: str(topology.describe()),
            lambda: self._life.state,
            self._threads,
            lambda: self._loop,
            self._stateful_tasks,
        )
        self._displays = {}
        self._rates = Rates()
        self._lags: InputLags | None = None
        self._step: str | None = None
        """The current step of the start."""
        self._summary = ThreadSummary(self._config["log.summary.interval.ms"], self._thread_name)
        self._metrics_server: MetricsServer | None = None
        self._reporters: Reporters | None = None
        self._traces = BatchTraces.of(self._config, __version__, self._thread_name)
        self._wishes_shutdown = False
        self._paused = False
        self._pausing = threading.RLock()
        self._leave_group: bool | None = None
        self._backfill: Backfill | None = None
        self._staged: Staged = {}
        self._ended = threading.Event()
        self._topics_doubted = threading.Event()
        """Set to check the topics at once: a topic may be missing, or the application has ended."""
        self._failure: BaseException | None = None

    # -- before the start ----------------------------------------------------------------------------------------------

    def set_state_listener(self, listener: StateListener | None) -> None:
        """Call `listener(new, old)` on every change of state."""
        self._life.refuse_after_start("a state listener")
        self._life.listener = listener

    def set_uncaught_exception_handler(self, handler: Callable[[BaseException], StreamThreadExceptionResponse]) -> None:
        """Call `handler(error)` after a failure to choose the response; without a handler the client shuts down."""
        self._life.refuse_after_start("an uncaught exception handler")
        self._handler = handler

    def set_global_state_restore_listener(self, listener: StateRestoreListener | None) -> None:
        """Call the methods of `listener` while stores are restored."""
        self._life.refuse_after_start("a restore listener")
        self._restore_listener = listener

    def set_standby_update_listener(self, listener: StandbyUpdateListener | None) -> None:
        """Call the methods of `listener` while standbys of this instance are updated."""
        self._life.refuse_after_start("a standby update listener")
        self._standby_listener = listener

    # -- life ----------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state of the application."""
        return self._life.state

    @property
    def failure(self) -> BaseException | None:
        """The error that ended the application, or None. After reading it a script decides on its exit code itself."""
        if self._failure is not None:
            process_end.forget_failure(self._client_id)
        return self._failure

    def start(self) -> None:
        """Start the application. Returns when the topics exist and the application is about to join its group.

        The process lasts until the application ends (`client/process_end.py`), also after the end of the calling thread.

        0. Check all settings, including Spark's. An invalid setting raises an error without any effect.
        1. Lock the state directory, check and create topics, make the plan.
        2. Make or use the SparkSession and make its threads.
        3. Join the group. If other instances have the tasks, wait until threads are ready to take them.
        """
        with self._life.lock:
            if self._life.state is not State.CREATED:
                raise StreamsError(
                    f"The application cannot be started: it is {self._life.state.name}. Make a new KafkaStreams to start it again"
                )
            told = self._life.change(State.REBALANCING)
        process_end.last_as_long_as(self)
        try:
            notebook_applications.start(self, self._config["application.id"], str(self._config["state.dir"]))
            self._life.tell(told)
            with self._starting:
                self._starter = threading.get_ident()
                self._start()
        except ClosedWhileStartingError as exc:
            _log.info("%s", exc)
            self._life.wait_for_end(_CLOSE_SECONDS)
        except BaseException as exc:
            self._failure = exc
            self._close_to_error()
            process_end.forget_failure(self._client_id)  # the exception is raised
            raise
        finally:
            self._starter = None

    def backfill(self, until: datetime | None = None, then_live: bool = True) -> None:
        """Start the application and process what there is; returns when all of it is committed.

        What there is: every record of the source topics up to their ends at the start; with `until`, up to the first record of
        each partition at or after that time. It runs on all threads, in large batches. Then the application goes live at exactly
        these positions, or with `then_live=False` it ends, and a later `start` continues there. After a crash a new call
        continues from the last commit, up to the ends that it finds.

        Raises the failure if the application fails, and StreamsStoppedError if it is closed before the backfill is complete.

            streams = KafkaStreams(topology, config)
            streams.backfill()                                # history, as fast as the threads can
            print(streams.store("counts")["spark"])           # live from here on
        """
        with self._life.lock:
            if self._life.state is State.CREATED:
                self._backfill = Backfill(until, then_live)
        self.start()
        assert self._backfill is not None
        while not self._backfill.done.wait(TICK):
            if not self._life.state.is_running_or_rebalancing:
                self._life.wait_for_end(None)
                if self._life.state is State.ERROR:
                    self._raise_failure()
                raise StreamsStoppedError(
                    f"the application {self._client_id} was closed before its backfill was complete: call backfill() of a "
                    "new one to continue from the last commit"
                )
        if not then_live:
            self.close()

    @property
    def backfill_progress(self) -> BoundedProgress | None:
        """How far a backfill has come: `done` of `total` records, `per_second`, `share`, `seconds_left`; None if none runs."""
        loop = self._loop
        return None if loop is None or not self._life.state.is_running_or_rebalancing else loop.bounded.progress

    def _start(self) -> None:
        config = self._config
        self._life.refuse_if_closing()
        check_client_settings(config)
        check_session(config.spark_configs, self._given_spark)
        check_before_start(self._topology.internal_topology_builder.registry, config["application.id"])
        group_write = config["allow.os.group.write.access"]
        self._directory = StateDirectory(config["state.dir"], config["application.id"], allow_group_write=group_write)
        self._process_id = str(self._directory.initialize_process_id())
        self._directory.clean_outdated_dirs_on_startup(config["state.cleanup.dir.max.age.ms"])
        self._admin = Admin(admin_config(config, self._client_id), self._metrics.of_admin())
        self._reporters = Reporters(config, self.metrics, f"{self._client_id}-metric-reporters")
        self._reporters.start()
        if config["metrics.port"] is not None:
            self._metrics_server = MetricsServer(config, self.metrics_text, f"{self._client_id}-metrics")
        if config["application.server"]:
            self._web = WebService(config)
        self._say_starting("the brokers: topics are checked and made")
        prepared = self._prepared = prepare(self._topology, config, self._admin)
        if config["group.protocol"] == "streams":
            self._broker_topology()  # what cannot be is told before Spark starts
        self._say_starting("Spark: a session is made, or taken")
        wanted = config["num.stream.threads"]
        self._session = take_session(config["application.id"], config.spark_configs, self._given_spark, wanted or 0)
        if config["class.archive.enabled"]:
            self._session.archive_classes()
        context = self._session.context
        self._identity = identity_for(context)
        self._staged = self._stage_history(prepared)
        self._say_starting("Spark: executors are looked for, and worker processes started")
        count = threads_of(context, wanted, len(prepared.plan.tasks()), self._life.refuse_if_closing)
        threads = [self._threads.add() for _ in range(count)]
        self._spark_threads = SparkThreads(context, self._application(prepared), [thread.name for thread in threads])
        sources = dataframe_sources(self._topology.internal_topology_builder.registry)
        if sources:
            self._say_starting("DataFrames: those that streams are joined with are loaded")
            use = self._session
            self._dataframes = DataframeTables(
                sources, lambda: use.session, self._spark_threads.set_tables, f"{self._client_id}-dataframes"
            )
            self._dataframes.load()
            self._dataframes.start()
        events = Events(
            self._on_running,
            self._on_rebalancing,
            self._on_assigned,
            self._on_thread,
            self._on_failure,
            self._restore_events(),
            lambda: self._summary.tell({thread.index: thread for thread in self._threads.alive()}),
            self._on_reports,
            self._on_batch,
        )
        events.on_slots = ThreadGrowth(self.add_stream_thread, self._threads, prepared.plan, wanted is not None).take
        events.standbys = standby_events(
            self._callbacks, lambda: self._standby_listener, self._metrics.updated, self._metrics.updaters_worked
        )
        if self._web is not None:
            self._inside.watch_reports(self._web.history.reported)
            self._inside.watch_restores(self._web.history.restore)
            self._rates = self._web.history.rates
        else:
            self._inside.watch_reports(self._rates.reported)
        loop = EventLoop(
            config,
            prepared.plan,
            self._spark_threads,
            self._admin,
            self._offsets(prepared),
            events,
            ends=self._input_ends(prepared),
        )
        self._loop = loop
        loop.bounded.on_history_read = self._delete_history
        self._lags = InputLags(
            loop.tasks,
            lambda partitions: self._admin.committed(config["application.id"], partitions),
            lambda partitions: self._admin.reachable_ends(partitions, config.eos_enabled, known_only=True),
        )
        stores = LocalStores(config, self._spark_threads, loop)
        self._queries = Queries(stores, self._locations, lambda: self._life.state)
        self._tables = StateTables(self._session, stores, self._locations)
        self._inside.started(loop, self._spark_threads, self._session, self._tables)
        loop.copies.directory = self._directory
        loop.copies.closed(prepared.plan.tasks())
        if prepared.global_topology is not None:
            topics = set(prepared.global_topology.store_to_topic.values())
            loop.watch_globals([TopicPartition(t, p) for t in sorted(topics) for p in range(prepared.plan.partitions[t])])
        self._member = loop.member = loop.copies.member = self._new_member(loop)
        self._thread = threading.Thread(target=self._run_loop, name=f"{self._client_id}-event-loop", daemon=True)
        self._threads.set_all(ThreadState.STARTING)
        self._thread.start()
        if threads:
            threading.Thread(target=self._join, name=f"{self._client_id}-join", daemon=True).start()
        if self._web is not None:
            running = RunningApplication(
                self._queries,
                self._topology.describe(),
                self._spark_threads,
                loop,
                state=lambda: self._life.state,
                failure=lambda: self._failure,
                lags=self._lags,
                thread_states=lambda: {thread.name: thread.state.name for thread in self._threads.all()},
                state_since=lambda: self._life.since,
                paused=lambda: self._paused,
                pause=self._pause,
                spark_ui=context.uiWebUrl,
            )
            letters = DeadLetterTopics(config, self._admin, self._client_id)
            self._web.serve(running, self.metrics_text, self.metrics, letters)
        self._step = None
        threading.Thread(target=self._maintain, name=f"{self._client_id}-CleanupThread", daemon=True).start()

    def _new_member(self, loop: EventLoop) -> GroupClient:
        """This instance's member: of a classic group, where the leader assigns tasks, or of a streams group, where brokers do."""
        config, name = self._config, f"{self._client_id}-consumer"
        client = member_config(config, self._client_id)
        if config["group.protocol"] == "streams":
            warn_of_settings_of_the_group(config)
            return StreamsMember(
                *(client, self._broker_topology, lambda: self._prepared.plan.task_set, self._member_info, loop.revoked),
                *(loop.assigned, name),
                fenced_by_epoch=config.eos_enabled,
                others=self._group_status,
            )
        return GroupMember(
            client,
            self._prepared.subscribed_topics,
            self._member_info,
            GroupAssignor(config, self._admin, lambda: self._prepared.plan),
            loop.revoked,
            loop.assigned,
            name,
            keys=PeerKeys.of(config),
            limit=self._group_limit,
            on_double=self._take_new_process_id,
            others=self._group_status,
        )

    def _broker_topology(self) -> tuple[BrokerSubtopology, ...]:
        return broker_topology(self._prepared.plan.subtopologies.values(), self._config)

    def _stage_history(self, prepared: Prepared) -> Staged:
        """Have Spark write what is left of the histories of sources to files, from which the threads read it."""
        assert self._session is not None
        histories = prepared.builder.histories
        if not histories:
            return {}
        self._say_starting("Spark: the history of sources is read and sorted")
        with Groups(self._config, f"{self._client_id}-history") as groups:
            committed = groups.committed_with_metadata(self._config["application.id"])
        session, starts = self._session, self._offsets(prepared).starts
        committed_only = reads_committed(consumer_config(self._config, self._client_id))
        staging = HistoryStaging(self._config, lambda: session.session, self._admin, starts, committed_only)
        return staging.stage(histories, prepared.plan.partitions, committed)

    def _delete_history(self) -> None:
        """Delete the files of history that was read."""
        topics = {partition.topic for partition in self._staged}
        threading.Thread(
            target=delete_history, args=(self._config, topics), name=f"{self._client_id}-history", daemon=True
        ).start()

    def _input_ends(self, prepared: Prepared) -> InputEnds | None:
        if self._backfill is None:
            return None
        self._say_starting("the brokers: the ends of the topics are read")
        partitions = [TopicPartition(t, p) for t in prepared.external_topics for p in range(prepared.plan.partitions[t])]
        committed_only = reads_committed(consumer_config(self._config, self._client_id))
        return self._backfill.ends(partitions, self._admin, committed_only, self._staged)

    def _say_starting(self, step: str) -> None:
        self._life.refuse_if_closing()
        self._step = step
        if self._web is not None:
            self._web.starting(step)

    def _join(self) -> None:
        """Join the group."""
        loop, member = self._loop, self._member
        assert loop is not None
        assert member is not None
        wait_to_join(self._others_work, lambda: loop.has_begun, self._ended, _JOIN_SECONDS)
        with self._life.lock:
            if not self._ended.is_set():
                member.start()

    def _others_work(self) -> bool:
        return any(member.process_id != self._process_id for member in self._group_status().members)

    def _member_info(self) -> MemberInfo:
        assert self._loop is not None
        server, error_code = self._server_address, SHUTDOWN_REQUESTED if self._wishes_shutdown else 0
        threads, tags = len(self._threads.alive()), member_tags(self._config)
        return MemberInfo(self._process_id, threads, server, *self._loop.holdings(), tags, error_code)

    def _stateful_tasks(self) -> list[TaskId]:
        """Return the tasks with state that the group assigned to this instance, open or not."""
        membership = None if self._loop is None else self._loop.membership
        if self._loop is None or membership is None:
            return []
        plan = self._loop.tasks.plan
        there = set(plan.tasks())
        return [task for task in membership.tasks if task in there and plan.is_stateful(task)]

    def _group_limit(self) -> int:
        """Return the largest size of a group's record, Kafka's default if the brokers do not return it."""
        return self._admin.max_message_bytes("__consumer_offsets") or DEFAULT_LIMIT

    def _group_status(self) -> GroupStatus:
        """Return the group's members, with a separate admin client."""
        with Groups(self._config, f"{self._client_id}-group") as groups:
            return groups.status(self._config["application.id"])

    def _take_new_process_id(self) -> None:
        """Continue under a new process id, also for transactions, because another instance has this one's."""
        assert self._directory is not None
        self._process_id = str(self._directory.renew_process_id())
        self._begin_anew(self._prepared)

    def _application(self, prepared: Prepared) -> Application:
        return Application(
            f"{self._config['application.id']}-{self._process_id}#{uuid.uuid4()}",
            self._config,
            prepared.plan,
            prepared.global_topology,
            self._process_id,
            self._client_id,
            tuple(entry for entry in sys.path if entry),
            self._query_key,
            self._identity,
            self._staged,
        )

    @property
    def _server_address(self) -> str:
        return "" if self.server_host is None else str(self.server_host)

    def _locations(self) -> Locations:
        assert self._loop is not None
        membership = self._loop.membership
        tasks, known = self._loop.tasks, self._known_locations
        plan = tasks.plan
        if known is None or known.membership is not membership or known.plan is not plan:
            topology = self._prepared.global_topology
            globals_ = frozenset(topology.stores if topology is not None else ())
            known = self._known_locations = Locations(plan, membership, globals_)
        return known

    def _offsets(self, prepared: Prepared) -> TaskOffsets:
        group = self._config["application.id"]
        reset = str(self._config.main_consumer_configs(group, self._client_id).get("auto.offset.reset", "earliest"))
        committed_only = reads_committed(consumer_config(self._config, self._client_id))
        return TaskOffsets(
            *(prepared.plan, group, self._admin, self._committed, prepared.builder, reset, SystemClock()),
            committed_only=committed_only,
            staged=self._staged,
        )

    def _committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        assert self._member is not None
        return self._member.committed(partitions)

    def _maintain(self) -> None:
        """Periodically check the topics for changes, and remove directories of tasks that left long ago."""
        config = self._config
        every = min(config["metadata.max.age.ms"], config["state.cleanup.delay.ms"]) / 1000
        while True:
            self._topics_doubted.wait(every)
            self._topics_doubted.clear()
            if self._ended.is_set():
                return
            try:
                if self._is_outdated():
                    self._replan()
            except TopologyError as exc:
                if self._loop is not None:
                    self._loop.fail(exc)
            except StreamsError as exc:
                _log.warning("Checking the topics failed: %s", exc)
            if self._directory is not None:
                self._directory.clean_removed_tasks(config["state.cleanup.delay.ms"])

    def _is_outdated(self) -> bool:
        """Return True if the plan does not fit the existing topics. A missing topic is checked twice."""
        counts = self._admin.partition_counts()
        if self._prepared.missing(counts):  # a restarted broker does not know all its topics at first
            self._ended.wait(_MISSING_SECONDS)
            counts = self._admin.partition_counts()
        return self._prepared.outdated_by(counts)

    def _replan(self) -> None:
        """Make a new plan for the topics that patterns match now, and rejoin the group with it."""
        assert self._member is not None
        prepared = prepare(self._topology, self._config, self._admin)
        _log.info("Input topics are now %s", ", ".join(prepared.external_topics))
        self._begin_anew(prepared)
        self._member.resubscribe(prepared.subscribed_topics)

    def _begin_anew(self, prepared: Prepared) -> None:
        """Use a new plan from the next generation of the group on."""
        assert self._loop is not None
        assert self._spark_threads is not None
        self._loop.replace_plan(prepared.plan, self._offsets(prepared))
        self._spark_threads.replace_application(self._application(prepared))
        self._prepared = prepared
        if self._queries is not None:
            self._queries.stores.forget()

    def close(self, timeout: CloseOptions | timedelta | int | None = None) -> bool:
        """Commit the processed records and stop; True if that took no longer than the timeout (timedelta or milliseconds).

        `CloseOptions` also choose whether the instance leaves its group; the first of several calls decides. A call during the
        start stops the start. A signal handler that interrupts `start` gets False: the application closes when `start` returns.

        If no other instance runs, this one first reads its repartition topics to their ends, for at most half of the timeout,
        because a Java application cannot read blocks.

            streams.close(CloseOptions(timeout=timedelta(seconds=30), leave_group=True))
        """
        options = CloseOptions.of(timeout)
        with self._life.lock:
            told = self._life.change(State.PENDING_SHUTDOWN)
            if told is not None:
                self._leave_group = options.leave_group
        self._life.tell(told)
        if told is not None:
            arguments = (options.seconds,)
            threading.Thread(target=self._shut_down, args=arguments, name=f"{self._client_id}-close", daemon=True).start()
        if self._starter == threading.get_ident():  # a signal handler inside `start`: `start` must return first
            return False
        ended = self._life.wait_for_end(options.seconds)
        if ended and self._web is not None:
            self._web.close()  # after a failure it stays open to show the error
        return ended

    def wait_until_running(self, timeout: timedelta | float | None = None) -> None:
        """Wait until the application runs, at most `timeout` (timedelta or seconds).

        Raises the failure if the application fails, StreamsTimeoutError (a TimeoutError) if it takes longer, and
        StreamsStoppedError if it is closed.

            streams.start()
            streams.wait_until_running(timedelta(seconds=30))
        """
        self._refuse_before_start("wait_until_running()")
        if not self._life.wait_until_settled(_seconds(timeout)):
            raise StreamsTimeoutError(f"The application {self._client_id} is still starting after {_seconds(timeout)} s")
        if self._life.state in (State.PENDING_ERROR, State.ERROR):
            self._raise_failure()
        if not self._life.state.is_running_or_rebalancing:
            raise StreamsStoppedError(f"The application {self._client_id} was closed: it is {self._life.state.name}")

    def await_termination(self, timeout: timedelta | float | None = None) -> bool:
        """Wait until the application has ended, at most `timeout` (timedelta or seconds). Return whether it has ended.

        Raises the failure if the application has failed.

            with KafkaStreams(topology, config) as streams:
                streams.start()
                streams.await_termination()
        """
        self._refuse_before_start("await_termination()")
        if not self._life.wait_for_end(_seconds(timeout)):
            return False
        if self._life.state is State.ERROR:
            self._raise_failure()
        return True

    def _refuse_before_start(self, call: str) -> None:
        if self._life.state.has_not_started:
            raise StreamsNotStartedError(f"{call} would wait for ever: the application has not been started. Call start() first")

    def _raise_failure(self) -> NoReturn:
        process_end.forget_failure(self._client_id)
        raise self._failure or StreamsStoppedError(f"the application {self._client_id} has ended: {self._failure_reason()}")

    def clean_up(self) -> None:
        """Delete the local state of the application. Allowed only before `start` or after `close`."""
        state = self._life.state
        if state.is_running_or_rebalancing or state.is_shutting_down:
            raise StreamsError(
                f"The local state can be deleted only before the start or after the end; the application is {state.name}"
            )
        directory = StateDirectory(
            self._config["state.dir"],
            self._config["application.id"],
            allow_group_write=self._config["allow.os.group.write.access"],
        )
        directory.clean()
        directory.close()
        delete_shared_history(self._config["history.dir"], self._config["application.id"])

    def pause(self) -> None:
        """Stop processing, restoring and updating standbys until `resume`; return at once.

        The instance stays in its group, and its state can be read. If it is called before `start`, the application starts paused.
        """
        self._pause(True)

    def resume(self) -> None:
        """End a `pause`."""
        self._pause(False)

    def _pause(self, paused: bool) -> None:
        with self._pausing:
            self._paused = paused
            self._metrics.paused(paused)
            if self._loop is not None:
                self._loop.pause(paused)
                self._loop.standbys.pause(paused)

    @property
    def is_paused(self) -> bool:
        return self._paused

    # -- metrics and metadata ------------------------------------------------------------------------------------------

    def metrics(self) -> dict[MetricName, Metric]:
        """Return the current metrics under Kafka Streams' names: client, threads, tasks, nodes, stores, caches.

        The group `penstock-batch-metrics` has the times of a batch's steps. Metrics of tasks and stores are at most a second
        old while records arrive.

            running = [m.metric_value for n, m in streams.metrics().items() if n.name == "alive-stream-threads"]
        """
        return self._metrics.metrics()

    def metadata_for_local_threads(self) -> set[ThreadMetadata]:
        """Return the stream threads of this instance with their tasks.

        for thread in streams.metadata_for_local_threads():
            print(thread.thread_name, thread.thread_state, [str(task.task_id) for task in thread.active_tasks])
        """
        loop = self._require_running("its threads")
        owners, threads, copies = loop.owners, self._threads.all(), loop.copies.standing_by()
        waiting, now = loop.waiting_for_core, wall_time()
        return {
            thread_metadata(
                self._client_id,
                thread,
                [loop.tasks.metadata(task) for task, index in owners.items() if index == thread.index],
                copies[number :: len(threads)],
                round((now - waiting[thread.name]) * 1000) if thread.name in waiting else None,
            )
            for number, thread in enumerate(threads)
        }

    def all_local_store_partition_lags(self) -> dict[str, dict[int, LagInfo]]:
        """Return the lag of each local store behind its changelog, by store and partition."""
        loop = self._require_running("its stores' lags")
        copies = loop.standbys.copies()
        stores = {**loop.tasks.changelogs(), **{copy.partition: copy.store for copy in copies}}
        ends = self._admin.log_ends(list(stores), self._config.eos_enabled) if stores else {}
        restoring = {found.partition: found.position for found in loop.tasks.restoring()}
        behind = {**{copy.partition: copy.offset for copy in copies}, **restoring}
        return store_lags(stores, behind, ends)

    def _repr_html_(self) -> str:
        """Return a summary for notebooks: state, threads, lag, rates, a link to the console."""
        return self._summarised().html()

    def _summarised(self) -> Summary:
        url, loop, state = None if self._web is None else f"{self._web.url}/", self._loop, self._life.state
        shown = "PAUSED" if self._paused and state is State.RUNNING else state.name
        summary = Summary(self._config["application.id"], shown, url=url, failure=self._failure)
        if not state.is_running_or_rebalancing:
            return summary
        if loop is None or self._lags is None:
            return replace(summary, step=self._step)
        lags, rates, owners = self._lags(), self._rates.per_second(), loop.owners
        threads = []
        for thread in self._threads.all():
            tasks = sorted(task for task, index in owners.items() if index == thread.index)
            known = [lags.tasks[task] for task in tasks if task in lags.tasks]
            threads.append(
                ThreadRow(thread.name, thread.state.name, [*map(str, tasks)], sum(known) if known or not tasks else None)
            )
        return replace(
            summary,
            step=None if state is State.RUNNING else self._step or "its tasks to be assigned, opened and restored",
            threads=threads,
            lag=lags.total if lags.partitions else None,
            records_per_second=rates["records_per_second"],
            produced_per_second=rates["produced_per_second"],
            restoring=loop.tasks.restoring(),
            backfill=self.backfill_progress,
        )

    def _require_running(self, what: str) -> EventLoop:
        if self._life.state.has_not_started:
            raise StreamsNotStartedError(
                f"The application has no information about {what}: it has not been started. Call start() first"
            )
        if not self._life.state.is_running_or_rebalancing or self._loop is None:
            raise StreamsError(f"The application has no information about {what}: it is {self._life.state.name}")
        return self._loop

    def metrics_text(self) -> str:
        """Return the metrics in Prometheus' text format, as `metrics.port` serves them."""
        return render(self.metrics())

    @property
    def metrics_port(self) -> int | None:
        """The port of the metrics server; None if there is none."""
        return None if self._metrics_server is None else self._metrics_server.port

    @property
    def server_host(self) -> HostInfo | None:
        """The address of the query server and the console after the start; None without `application.server`.

        With port 0 in `application.server` it has the actual port.
        """
        return None if self._web is None else self._web.host

    # -- threads -------------------------------------------------------------------------------------------------------

    def add_stream_thread(self) -> str | None:
        """Add a stream thread to a running application. Return its name, or None if the application does not run.

        The name has the lowest unused number. The thread takes over tasks when the load requires it.
        """
        with self._starting, self._thread_count:
            if not self._life.state.is_running_or_rebalancing or self._loop is None or self._member is None:
                _log.warning("Cannot add a stream thread when Kafka Streams client is in state %s", self._life.state.name)
                return None
            alone = not self._threads.alive()
            thread = self._threads.add()
            _log.info("Adding %s, there will now be %d live threads", thread.name, len(self._threads.alive()) + 1)
            thread.set_state(ThreadState.STARTING)
            self._loop.change_threads(ThreadChange(thread.index, thread.name))
            if alone:
                self._member.join_again()
            elif self._loop.shares_work:
                self._member.request_rejoin()
            return thread.name

    def remove_stream_thread(self, timeout: timedelta | float | None = None) -> str | None:
        """Move the tasks of a stream thread to the others and remove it. Return its name, or None if there is none.

        Waits at most `timeout` (timedelta or milliseconds) and then raises StreamsTimeoutError; the thread ends nevertheless.
        An application without threads keeps its state and continues when a thread is added.
        """
        seconds = None if timeout is None else to_ms(timeout, "timeout") / 1000  # type: ignore[arg-type]
        with self._starting, self._thread_count:
            if not self._life.state.is_running_or_rebalancing or self._loop is None or self._member is None:
                _log.warning("Cannot remove a stream thread when Kafka Streams client is in state %s", self._life.state.name)
                return None
            thread = self._threads.to_remove()
            if thread is None:
                _log.warning("There are no threads eligible for removal")
                return None
            _log.info("Removing %s", thread.name)
            thread.set_state(ThreadState.PENDING_SHUTDOWN)
            self._loop.change_threads(ThreadChange(thread.index, on_done=partial(self._threads.discard, thread)))
            if not self._threads.alive():
                self._member.leave()
            elif self._loop.shares_work:
                self._member.request_rejoin()
        if threading.current_thread() is not self._thread and not thread.wait_until_dead(seconds):
            raise StreamsTimeoutError(f"{thread.name} did not stop in the allotted time. It ends after its current batch")
        return thread.name

    def __enter__(self) -> KafkaStreams:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the event loop's events ---------------------------------------------------------------------------------------

    def _run_loop(self) -> None:
        assert self._loop is not None
        with self._pausing:
            self._pause(self._paused)
        try:
            self._loop.run()
        except BaseException as exc:  # noqa: BLE001 - without its event loop a client would look alive but do nothing
            self._on_failure(exc, None)
            self._failure = exc
        finally:
            self._close_to_error(with_page=False)

    def _callback_failed(self, error: StreamsError) -> None:
        """Pass a listener's exception to the event loop, which asks the uncaught exception handler.

        Before the event loop exists, `start` raises it. A client that is ending only logs it.
        """
        if not self._life.state.is_running_or_rebalancing:
            _log.error("stream-client [%s] %s", self._client_id, error, exc_info=error)
        elif self._loop is None:
            raise error
        else:
            self._loop.fail(error)

    def _on_running(self) -> None:
        self._threads.set_all(ThreadState.PARTITIONS_ASSIGNED, ThreadState.RUNNING)
        self._life.become(State.RUNNING)

    def _on_rebalancing(self) -> None:
        self._life.become(State.REBALANCING)

    def _on_assigned(self) -> None:
        for thread in self._threads.alive():
            if thread.state is not ThreadState.RUNNING:
                thread.set_state(ThreadState.PARTITIONS_ASSIGNED)

    def _on_thread(self, index: int, phase: ThreadPhase) -> None:
        thread = self._threads.at(index)
        if thread is not None:
            thread.set_state(ThreadState.PARTITIONS_ASSIGNED)
            if phase is ThreadPhase.RUNNING:
                thread.set_state(ThreadState.RUNNING)

    def _restore_events(self) -> RestoreEvents:
        def thread_of(task: TaskId) -> str | None:
            return None if self._loop is None else self._thread_name(self._loop.owners.get(task))

        heard = self._metrics.restored, self._inside.restored
        return RestoreEvents(self._callbacks, lambda: self._restore_listener, thread_of, *heard)

    def _on_reports(self, reports: Mapping[int, ThreadReport]) -> None:
        self._metrics.reported(reports)
        self._inside.reported(reports)
        for thread, report in reports.items():
            tell_again(f"stream-thread [{self._thread_name(thread) or thread + 1}]", report.logs)

    def _on_batch(self, thread: int, batch: BatchReport) -> None:
        self._metrics.batch_done(thread, batch)
        self._summary.batch_done(thread, batch)
        if self._traces is not None:
            self._traces.batch_done(thread, batch)
        self._inside.batch_done(thread, batch)

    def _thread_name(self, index: int | None) -> str | None:
        thread = None if index is None else self._threads.at(index)
        return None if thread is None else thread.name

    def _on_failure(self, error: BaseException, index: int | None) -> bool:
        """Return True to continue after a failure, as the handler decides. Called on the event loop's thread.

        The end of a session that was made here is no failure: a new one is made. Nor is the deletion of a topic that a
        pattern matched: the other topics are read further.
        """
        if isinstance(error, MissingTopicError) and all(map(self._prepared.is_matched, error.topics)):
            self._topics_doubted.set()
            return True
        if isinstance(error, SessionStoppedError) or (self._spark_threads is not None and self._spark_threads.has_ended):
            try:
                if self._renew_session():
                    return True
            except SessionStoppedError as exc:
                error = exc
            else:
                error = error if isinstance(error, SessionStoppedError) else SessionStoppedError()
            if not self._life.state.is_running_or_rebalancing:
                return False  # the application was closed meanwhile
        thread = None if index is None else self._threads.at(index)
        if self._traces is not None:
            self._traces.failed(error, index)
        self._threads.failed += 1
        response = self._response_to(error)
        if response is StreamThreadExceptionResponse.REPLACE_THREAD and isinstance(error, SessionStoppedError):
            response = StreamThreadExceptionResponse.SHUTDOWN_CLIENT  # a new thread has nothing to run on
        if response is StreamThreadExceptionResponse.REPLACE_THREAD:
            if thread is None:
                _log.error("stream-client [%s] continues after a failure: %s", self._client_id, error)
            else:
                _log.error("%s failed and is replaced: %s", thread.name, error)
                self._replace_thread(thread)
            return True
        self._failure = error
        if response is StreamThreadExceptionResponse.SHUTDOWN_APPLICATION:
            _log.error("All instances of the application are asked to stop after a failure: %s", error, exc_info=error)
            return self._request_shutdown()
        _log.error("The application stops after a failure: %s", error, exc_info=error)
        return False

    def _renew_session(self) -> bool:
        """Return True if a new session, with nothing open in its threads, replaces one that has ended.

        Each thread that failed with the old session calls this. The session is made once.
        """
        assert self._spark_threads is not None
        assert self._session is not None
        with self._renewing:
            if not self._spark_threads.has_ended:
                return True
            if not self._session.is_renewable or not self._life.state.is_running_or_rebalancing:
                return False
            _log.warning(
                "Spark's session has ended, probably because its JVM has died. A new session is made, and the "
                "application continues there"
            )
            self._on_rebalancing()
            if not renew_session(self._session, self._spark_threads, self._config["task.timeout.ms"] / 1000, self._life):
                return False
            if self._tables is not None:
                self._tables.renew()
            return True

    def _response_to(self, error: BaseException) -> StreamThreadExceptionResponse:
        if self._handler is None:
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT
        try:
            return StreamThreadExceptionResponse(self._handler(error))
        except BaseException as exc:  # noqa: BLE001 - a handler that fails cannot decide; the application stops
            _log.error("The uncaught exception handler failed: %s", exc, exc_info=exc)
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT

    def _replace_thread(self, failed: StreamThread) -> None:
        """Replace a failed thread by a new one with another name. As in Java, the old one is not dead yet."""
        assert self._loop is not None
        with self._thread_count:
            new = self._threads.add()
            failed.set_state(ThreadState.PENDING_SHUTDOWN)
            new.set_state(ThreadState.STARTING)
        self._loop.replace_thread(failed.index, new.index, new.name, partial(self._threads.discard, failed))

    def _request_shutdown(self) -> bool:
        """Rejoin the group with a request to stop all instances. This one stops after the group's answer, or without it."""
        assert self._loop is not None
        assert self._member is not None
        self._wishes_shutdown = True
        self._loop.halt()
        self._member.request_rejoin()
        threading.Thread(target=self._end_without_answer, name=f"{self._client_id}-shutdown", daemon=True).start()
        return True

    def _end_without_answer(self) -> None:
        if not self._ended.wait(_SHUTDOWN_SECONDS) and self._loop is not None:
            self._loop.end()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _close_to_error(self, with_page: bool = True) -> None:
        """Stop after a failure, unless the application is already stopping. The console may show the failure until `close`."""
        with self._life.lock:
            if self._life.state.is_running_or_rebalancing:  # before the state changes: the main thread may end with it
                process_end.failed(self._client_id, self._failure_reason())
            told = self._life.change(State.PENDING_ERROR)
        self._life.tell(told)
        if told is not None:
            self._release(with_page)
            self._life.become(State.ERROR)

    def _failure_reason(self) -> str:
        if self._failure is None:
            return "another instance asked all instances of the application to stop"
        return f"{type(self._failure).__name__}: {self._failure}"

    def _shut_down(self, seconds: float | None) -> None:
        with self._starting:  # wait for a start in progress
            pass
        if self._loop is not None:
            self._loop.stop(seconds)
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        self._release()
        self._life.become(State.NOT_RUNNING)

    def _release(self, with_page: bool = True) -> None:
        """Close everything in reverse order. A session that others use stays open.

        After a failure the instance leaves its group first, so that the other members do not wait for its threads to close.
        If the session has ended, threads cannot be closed.
        """
        with self._life.lock:  # a concurrent join has finished, or sees that the application has ended
            self._ended.set()
            self._topics_doubted.set()
        has_session = self._spark_threads is None or not self._spark_threads.has_ended
        if self._member is not None and (not has_session or self._life.state is State.PENDING_ERROR):
            self._member.close(leave=self._leave_group if has_session else True)
        if self._loop is not None:
            self._loop.copies.standbys.close()
        self._threads.set_all(ThreadState.PENDING_SHUTDOWN)
        if self._web is not None and with_page:
            self._web.close()
        if self._dataframes is not None:
            self._dataframes.close()
        if self._tables is not None:
            self._tables.close()
        if self._queries is not None:
            self._queries.close()
        if self._spark_threads is not None and has_session:
            self._spark_threads.close(30)
        elif self._spark_threads is not None:
            self._spark_threads.forsake()
        self._threads.set_all(ThreadState.DEAD)
        if self._member is not None:
            self._member.close(leave=self._leave_group)
        if self._directory is not None:
            self._directory.close()
        if self._reporters is not None:
            self._reporters.close()
        if self._metrics_server is not None:
            self._metrics_server.close()
            self._metrics_server = None
        if self._session is not None:
            self._session.release()
            self._session = None
        if self._loop is not None:
            self._admin.let_go()


def _seconds(timeout: timedelta | float | None) -> float | None:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout


KafkaStreams.State = State  # type: ignore[attr-defined]  # Kafka Streams' name: KafkaStreams.State.RUNNING
