"""penstock: Kafka Streams for Python, with its data pipeline on Apache Spark.

Everything a user needs is importable from here. Building and testing a topology needs neither Spark nor a Kafka client:
what does (`KafkaStreams`, `DevBroker`) is loaded when it is first used.

    from penstock import KafkaStreams, StreamsBuilder

    builder = StreamsBuilder()
    builder.stream("lines").flat_map_values(str.split).group_by(lambda _, word: word).count().to_stream().to("counts")
    KafkaStreams(builder.build(), {"application.id": "wordcount", "bootstrap.servers": "localhost:9092"}).start()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penstock.client.assignment.task_assignor import (
    ApplicationState,
    AssignedTask,
    AssignmentConfigs,
    AssignmentError,
    KafkaStreamsAssignment,
    KafkaStreamsState,
    RackAwareOptimizationParams,
    StickyTaskAssignor,
    TaskAssignment,
    TaskAssignmentUtils,
    TaskAssignor,
    TaskInfo,
    TaskTopicPartition,
)
from penstock.client.close_options import CloseOptions
from penstock.client.listeners import StateRestoreListener
from penstock.client.metadata import LagInfo, TaskMetadata, ThreadMetadata
from penstock.client.metrics.reporters import KafkaMetric, MetricsReporter
from penstock.client.state import State
from penstock.config.streams_config import StreamsConfig, UnknownConfigWarning
from penstock.dead_letters import ErrorHandlerContext
from penstock.dsl.branched import BranchedKStream
from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.cogrouped import CogroupedKStream, SessionWindowedCogroupedKStream, TimeWindowedCogroupedKStream
from penstock.dsl.global_ktable import GlobalKTable
from penstock.dsl.grouped_stream import KGroupedStream
from penstock.dsl.grouped_table import KGroupedTable
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import KTable
from penstock.dsl.options import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    TableJoined,
)
from penstock.dsl.session_windowed import SessionWindowedKStream
from penstock.dsl.suppressed import BufferConfig, Suppressed
from penstock.dsl.time_windowed import TimeWindowedKStream
from penstock.errors import (
    BrokerAccessError,
    BrokerError,
    BufferFullError,
    ConfigError,
    DeserializationError,
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    LockError,
    MissingSourceTopicError,
    NoSuchElementError,
    PenstockError,
    ProcessingError,
    ProcessorStateError,
    ProductionError,
    RegistryUnavailableError,
    SerializationError,
    StateStoreMigratedError,
    StateStoreNotAvailableError,
    StreamsError,
    StreamsNotStartedError,
    StreamsRebalancingError,
    StreamsStoppedError,
    StreamsTimeoutError,
    TaskAssignmentError,
    TaskCorruptedError,
    TaskError,
    TaskMigratedError,
    TopologyError,
    UnknownStateStoreError,
)
from penstock.graph.dsl_stores import DslStoreSuppliers, InMemoryDslStoreSuppliers, RocksDBDslStoreSuppliers
from penstock.handlers import (
    DefaultProductionExceptionHandler,
    DeserializationExceptionHandler,
    LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler,
    LogAndContinueProductionExceptionHandler,
    LogAndFailExceptionHandler,
    LogAndFailProcessingExceptionHandler,
    ProcessingExceptionHandler,
    ProductionExceptionHandler,
    Response,
    Result,
    SerializationExceptionOrigin,
)
from penstock.history import SparkHistory
from penstock.ids import TaskId, TopicPartition
from penstock.metrics.registry import Metric, MetricName, Metrics, RecordingLevel, Sensor
from penstock.partitioner import StreamPartitioner
from penstock.processor import (
    Cancellable,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    ProcessingContext,
    Processor,
    ProcessorContext,
    PunctuationType,
    ValueTransformerWithKey,
)
from penstock.query.metadata import HostInfo, KeyQueryMetadata, StreamsMetadata
from penstock.query.position import Position, PositionBound
from penstock.query.queries import (
    KeyQuery,
    MultiVersionedKeyQuery,
    Query,
    RangeQuery,
    ResultOrder,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from penstock.query.request import StateQueryRequest
from penstock.query.result import FailureReason, QueryConfig, QueryResult, StateQueryResult
from penstock.record import FixedKeyRecord, ProducedRecord, RawRecord, Record, RecordContext, RecordMetadata
from penstock.runtime.queries.parameters import QueryableStoreType, QueryableStoreTypes, StoreQueryParameters
from penstock.runtime.queries.views import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyVersionedKeyValueStore,
    ReadOnlyWindowStore,
)
from penstock.serdes.contract import Deserializer, Serializer
from penstock.serdes.serde import Serde, Serdes
from penstock.serdes.windowed import WindowedSerdes
from penstock.state.aggregation_with_headers import AggregationWithHeaders
from penstock.state.rocksdb_options import RocksDBConfigSetter
from penstock.state.store import (
    KeyValueStore,
    SessionStore,
    StateStore,
    StateStoreContext,
    StoreBuilder,
    StoreIterator,
    ValueAndTimestamp,
    VersionedKeyValueStore,
    VersionedRecord,
    WindowStore,
)
from penstock.state.stores import Stores
from penstock.state.suppliers import KeyValueBytesStoreSupplier
from penstock.state.value_timestamp_headers import ValueTimestampHeaders
from penstock.state.windowed_suppliers import SessionBytesStoreSupplier, WindowBytesStoreSupplier
from penstock.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from penstock.topology.description import TopologyDescription
from penstock.topology.offset_reset import AutoOffsetReset
from penstock.topology.topology import Topology
from penstock.topology.wrapping import ProcessorWrapper
from penstock.windows import (
    EmitStrategy,
    JoinWindows,
    SessionWindow,
    SessionWindows,
    SlidingWindows,
    TimeWindow,
    TimeWindows,
    UnlimitedWindow,
    UnlimitedWindows,
    Window,
    Windowed,
    Windows,
)

if TYPE_CHECKING:
    from penstock.client.kafka_streams import KafkaStreams, StreamThreadExceptionResponse
    from penstock.client.replicas.standby_listener import StandbyUpdateListener, SuspendReason
    from penstock.kafka.client_supplier import KafkaClientSupplier
    from penstock.kafka.dev_broker import DevBroker
    from penstock.kafka.dev_cluster import DevCluster
    from penstock.testing.input_topic import TestInputTopic
    from penstock.testing.mock_processor_context import MockProcessorContext
    from penstock.testing.output_topic import TestOutputTopic
    from penstock.testing.records import TestRecord
    from penstock.testing.topology_test_driver import TopologyTestDriver

__version__ = "0.1.0"

__all__ = [
    # Building
    "StreamsBuilder",
    "KStream",
    "KTable",
    "GlobalKTable",
    "BranchedKStream",
    "KGroupedStream",
    "KGroupedTable",
    "TimeWindowedKStream",
    "SessionWindowedKStream",
    "CogroupedKStream",
    "TimeWindowedCogroupedKStream",
    "SessionWindowedCogroupedKStream",
    # Options
    "Consumed",
    "SparkHistory",
    "Produced",
    "Grouped",
    "Materialized",
    "Joined",
    "StreamJoined",
    "TableJoined",
    "Repartitioned",
    "Branched",
    "Suppressed",
    "BufferConfig",
    "EmitStrategy",
    "AutoOffsetReset",
    # Windows
    "Windows",
    "TimeWindows",
    "SlidingWindows",
    "SessionWindows",
    "UnlimitedWindows",
    "JoinWindows",
    "Window",
    "TimeWindow",
    "SessionWindow",
    "UnlimitedWindow",
    "Windowed",
    # Serdes
    "Serde",
    "Serdes",
    "Serializer",
    "Deserializer",
    "WindowedSerdes",
    # Processor API
    "Topology",
    "TopologyDescription",
    "Record",
    "FixedKeyRecord",
    "RecordContext",
    "RecordMetadata",
    "RawRecord",
    "ProducedRecord",
    "Processor",
    "FixedKeyProcessor",
    "ValueTransformerWithKey",
    "ProcessingContext",
    "ProcessorContext",
    "FixedKeyProcessorContext",
    "PunctuationType",
    "Cancellable",
    "ProcessorWrapper",
    "StreamPartitioner",
    "TaskId",
    "TopicPartition",
    # Timestamps
    "TimestampExtractor",
    "FailOnInvalidTimestamp",
    "LogAndSkipOnInvalidTimestamp",
    "UsePartitionTimeOnInvalidTimestamp",
    "WallclockTimestampExtractor",
    # State stores
    "Stores",
    "StateStore",
    "StateStoreContext",
    "KeyValueBytesStoreSupplier",
    "WindowBytesStoreSupplier",
    "SessionBytesStoreSupplier",
    "KeyValueStore",
    "WindowStore",
    "SessionStore",
    "VersionedKeyValueStore",
    "StoreBuilder",
    "StoreIterator",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "AggregationWithHeaders",
    "VersionedRecord",
    "DslStoreSuppliers",
    "RocksDBDslStoreSuppliers",
    "InMemoryDslStoreSuppliers",
    "RocksDBConfigSetter",
    # Running
    "KafkaStreams",
    "KafkaClientSupplier",
    "CloseOptions",
    "State",
    "StateRestoreListener",
    "StandbyUpdateListener",
    "SuspendReason",
    "StreamThreadExceptionResponse",
    "StreamsConfig",
    "UnknownConfigWarning",
    "Metric",
    "MetricName",
    "Metrics",
    "Sensor",
    "RecordingLevel",
    "MetricsReporter",
    "KafkaMetric",
    "ThreadMetadata",
    "TaskMetadata",
    "LagInfo",
    "TaskAssignor",
    "TaskInfo",
    "TaskTopicPartition",
    "ApplicationState",
    "KafkaStreamsState",
    "AssignmentConfigs",
    "AssignedTask",
    "KafkaStreamsAssignment",
    "TaskAssignment",
    "AssignmentError",
    "TaskAssignmentUtils",
    "RackAwareOptimizationParams",
    "StickyTaskAssignor",
    # Exception handlers
    "ErrorHandlerContext",
    "Response",
    "Result",
    "SerializationExceptionOrigin",
    "DeserializationExceptionHandler",
    "LogAndFailExceptionHandler",
    "LogAndContinueExceptionHandler",
    "ProcessingExceptionHandler",
    "LogAndFailProcessingExceptionHandler",
    "LogAndContinueProcessingExceptionHandler",
    "ProductionExceptionHandler",
    "DefaultProductionExceptionHandler",
    "LogAndContinueProductionExceptionHandler",
    # Queries
    "StoreQueryParameters",
    "QueryableStoreType",
    "QueryableStoreTypes",
    "ReadOnlyKeyValueStore",
    "ReadOnlyWindowStore",
    "ReadOnlySessionStore",
    "ReadOnlyVersionedKeyValueStore",
    "StateQueryRequest",
    "StateQueryResult",
    "QueryConfig",
    "QueryResult",
    "FailureReason",
    "Query",
    "KeyQuery",
    "TimestampedKeyQuery",
    "RangeQuery",
    "TimestampedRangeQuery",
    "WindowKeyQuery",
    "WindowRangeQuery",
    "VersionedKeyQuery",
    "MultiVersionedKeyQuery",
    "ResultOrder",
    "Position",
    "PositionBound",
    "HostInfo",
    "KeyQueryMetadata",
    "StreamsMetadata",
    # Testing
    "TopologyTestDriver",
    "TestInputTopic",
    "TestOutputTopic",
    "TestRecord",
    "MockProcessorContext",
    "DevBroker",
    "DevCluster",
    # Errors
    "PenstockError",
    "ConfigError",
    "TopologyError",
    "SerializationError",
    "RegistryUnavailableError",
    "NoSuchElementError",
    "StreamsError",
    "ProcessorStateError",
    "LockError",
    "InvalidStateStoreError",
    "UnknownStateStoreError",
    "StateStoreNotAvailableError",
    "StateStoreMigratedError",
    "InvalidStateStorePartitionError",
    "StreamsNotStartedError",
    "StreamsRebalancingError",
    "StreamsStoppedError",
    "TaskError",
    "DeserializationError",
    "ProcessingError",
    "ProductionError",
    "MissingSourceTopicError",
    "TaskCorruptedError",
    "TaskMigratedError",
    "TaskAssignmentError",
    "StreamsTimeoutError",
    "BufferFullError",
    "BrokerError",
    "BrokerAccessError",
]

_LAZY = {
    "KafkaStreams": "penstock.client.kafka_streams",
    "StandbyUpdateListener": "penstock.client.replicas.standby_listener",
    "SuspendReason": "penstock.client.replicas.standby_listener",
    "StreamThreadExceptionResponse": "penstock.client.kafka_streams",
    "DevBroker": "penstock.kafka.dev_broker",
    "KafkaClientSupplier": "penstock.kafka.client_supplier",
    "DevCluster": "penstock.kafka.dev_cluster",
    "TopologyTestDriver": "penstock.testing.topology_test_driver",
    "TestInputTopic": "penstock.testing.input_topic",
    "TestOutputTopic": "penstock.testing.output_topic",
    "TestRecord": "penstock.testing.records",
    "MockProcessorContext": "penstock.testing.mock_processor_context",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_LAZY))
