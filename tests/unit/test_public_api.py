"""What `from penstock import …` offers: pinned here, so that a change of it is a decision."""

import subprocess
import sys

import pytest

import penstock
import penstock.testing

BUILDING = """
    StreamsBuilder KStream KTable GlobalKTable BranchedKStream KGroupedStream KGroupedTable TimeWindowedKStream
    SessionWindowedKStream CogroupedKStream TimeWindowedCogroupedKStream SessionWindowedCogroupedKStream
    Consumed SparkHistory Produced Grouped Materialized Joined StreamJoined TableJoined Repartitioned Branched Suppressed
    BufferConfig EmitStrategy AutoOffsetReset
    Windows TimeWindows SlidingWindows SessionWindows UnlimitedWindows JoinWindows Window TimeWindow SessionWindow UnlimitedWindow
    Windowed
    Serde Serdes Serializer Deserializer WindowedSerdes
"""
PROCESSORS = """
    Topology TopologyDescription Record FixedKeyRecord RecordContext RecordMetadata RawRecord ProducedRecord
    Processor FixedKeyProcessor ValueTransformerWithKey ProcessingContext ProcessorContext FixedKeyProcessorContext
    PunctuationType Cancellable ProcessorWrapper StreamPartitioner TaskId TopicPartition
    TimestampExtractor FailOnInvalidTimestamp LogAndSkipOnInvalidTimestamp UsePartitionTimeOnInvalidTimestamp
    WallclockTimestampExtractor
"""
STORES = """
    Stores StateStore StateStoreContext KeyValueBytesStoreSupplier WindowBytesStoreSupplier SessionBytesStoreSupplier
    KeyValueStore WindowStore SessionStore VersionedKeyValueStore StoreBuilder StoreIterator
    ValueAndTimestamp ValueTimestampHeaders AggregationWithHeaders VersionedRecord
    DslStoreSuppliers RocksDBDslStoreSuppliers InMemoryDslStoreSuppliers RocksDBConfigSetter
"""
RUNNING = """
    KafkaStreams KafkaClientSupplier
    CloseOptions State StateRestoreListener StandbyUpdateListener SuspendReason StreamThreadExceptionResponse
    StreamsConfig UnknownConfigWarning Metric MetricName Metrics Sensor RecordingLevel MetricsReporter KafkaMetric
    ThreadMetadata TaskMetadata LagInfo
    TaskAssignor TaskInfo TaskTopicPartition ApplicationState KafkaStreamsState AssignmentConfigs AssignedTask
    KafkaStreamsAssignment TaskAssignment AssignmentError TaskAssignmentUtils RackAwareOptimizationParams StickyTaskAssignor
    ErrorHandlerContext Response Result SerializationExceptionOrigin
    DeserializationExceptionHandler LogAndFailExceptionHandler LogAndContinueExceptionHandler
    ProcessingExceptionHandler LogAndFailProcessingExceptionHandler LogAndContinueProcessingExceptionHandler
    ProductionExceptionHandler DefaultProductionExceptionHandler LogAndContinueProductionExceptionHandler
"""
QUERIES = """
    StoreQueryParameters QueryableStoreType QueryableStoreTypes ReadOnlyKeyValueStore ReadOnlyWindowStore ReadOnlySessionStore
    ReadOnlyVersionedKeyValueStore StateQueryRequest StateQueryResult QueryConfig QueryResult FailureReason Query KeyQuery
    TimestampedKeyQuery
    RangeQuery TimestampedRangeQuery WindowKeyQuery WindowRangeQuery VersionedKeyQuery MultiVersionedKeyQuery ResultOrder Position
    PositionBound HostInfo KeyQueryMetadata StreamsMetadata
"""
TESTING = "TopologyTestDriver TestInputTopic TestOutputTopic TestRecord MockProcessorContext DevBroker DevCluster"
ERRORS = """
    PenstockError ConfigError TopologyError SerializationError RegistryUnavailableError NoSuchElementError StreamsError
    ProcessorStateError LockError
    InvalidStateStoreError UnknownStateStoreError StateStoreNotAvailableError StateStoreMigratedError
    InvalidStateStorePartitionError StreamsNotStartedError StreamsRebalancingError StreamsStoppedError TaskError
    DeserializationError ProcessingError ProductionError MissingSourceTopicError TaskCorruptedError TaskMigratedError
    TaskAssignmentError
    StreamsTimeoutError BufferFullError BrokerError BrokerAccessError
"""
EVERYTHING = " ".join([BUILDING, PROCESSORS, STORES, RUNNING, QUERIES, TESTING, ERRORS]).split()


def test_should_offer_exactly_the_pinned_names() -> None:
    assert penstock.__all__ == EVERYTHING


@pytest.mark.parametrize("name", EVERYTHING)
def test_should_resolve_every_name(name: str) -> None:
    assert getattr(penstock, name) is not None
    assert name in dir(penstock)


@pytest.mark.parametrize("name", penstock.testing.__all__)
def test_should_resolve_every_name_of_the_test_kit(name: str) -> None:
    assert getattr(penstock.testing, name) is not None


def test_should_refuse_unknown_names() -> None:
    with pytest.raises(AttributeError, match="NoSuchThing"):
        _ = penstock.NoSuchThing
    with pytest.raises(AttributeError, match="NoSuchThing"):
        _ = penstock.testing.NoSuchThing


@pytest.mark.parametrize("statement", ["import penstock", "from penstock.testing import TopologyTestDriver"])
def test_should_import_neither_spark_nor_a_kafka_client(statement: str) -> None:
    program = f"""{statement}
import sys
print(sorted({{"pyspark", "confluent_kafka", "kafka"}} & set(sys.modules)))"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
