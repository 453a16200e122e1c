"""Kafka Streams' constants for the keys of a configuration, and helpers for those of its clients, as `StreamsConfig` has them."""

from __future__ import annotations

from typing import Final


class ConfigConstants:
    """The names under which Java's code has the keys.

    >>> ConfigConstants.APPLICATION_ID_CONFIG, ConfigConstants.consumer_prefix("max.poll.records")
    ('application.id', 'consumer.max.poll.records')
    """

    __slots__ = ()

    TOPIC_PREFIX: Final = "topic."
    CONSUMER_PREFIX: Final = "consumer."
    MAIN_CONSUMER_PREFIX: Final = "main.consumer."
    RESTORE_CONSUMER_PREFIX: Final = "restore.consumer."
    GLOBAL_CONSUMER_PREFIX: Final = "global.consumer."
    PRODUCER_PREFIX: Final = "producer."
    ADMIN_CLIENT_PREFIX: Final = "admin."
    CLIENT_TAG_PREFIX: Final = "client.tag."

    NO_OPTIMIZATION: Final = "none"
    OPTIMIZE: Final = "all"
    REUSE_KTABLE_SOURCE_TOPICS: Final = "reuse.ktable.source.topics"
    MERGE_REPARTITION_TOPICS: Final = "merge.repartition.topics"
    SINGLE_STORE_SELF_JOIN: Final = "single.store.self.join"
    AT_LEAST_ONCE: Final = "at_least_once"
    EXACTLY_ONCE_V2: Final = "exactly_once_v2"
    RACK_AWARE_ASSIGNMENT_STRATEGY_NONE: Final = "none"
    RACK_AWARE_ASSIGNMENT_STRATEGY_MIN_TRAFFIC: Final = "min_traffic"
    RACK_AWARE_ASSIGNMENT_STRATEGY_BALANCE_SUBTOPOLOGY: Final = "balance_subtopology"
    METRICS_LATEST: Final = "latest"
    ROCKS_DB: Final = "rocksDB"
    IN_MEMORY: Final = "in_memory"
    DSL_STORE_FORMAT_DEFAULT: Final = "DEFAULT"
    DSL_STORE_FORMAT_HEADERS: Final = "HEADERS"
    MAX_TASK_IDLE_MS_DISABLED: Final = -1
    STATE_CLEANUP_DIR_MAX_AGE_MS_DISABLED: Final = -1

    ACCEPTABLE_RECOVERY_LAG_CONFIG: Final = "acceptable.recovery.lag"
    ALLOW_OS_GROUP_WRITE_ACCESS_CONFIG: Final = "allow.os.group.write.access"
    APPLICATION_ID_CONFIG: Final = "application.id"
    APPLICATION_SERVER_CONFIG: Final = "application.server"
    BOOTSTRAP_SERVERS_CONFIG: Final = "bootstrap.servers"
    BUFFERED_RECORDS_PER_PARTITION_CONFIG: Final = "buffered.records.per.partition"
    BUILT_IN_METRICS_VERSION_CONFIG: Final = "built.in.metrics.version"
    CACHE_MAX_BYTES_BUFFERING_CONFIG: Final = "cache.max.bytes.buffering"
    CLIENT_ID_CONFIG: Final = "client.id"
    COMMIT_INTERVAL_MS_CONFIG: Final = "commit.interval.ms"
    CONNECTIONS_MAX_IDLE_MS_CONFIG: Final = "connections.max.idle.ms"
    DEFAULT_CLIENT_SUPPLIER_CONFIG: Final = "default.client.supplier"
    DEFAULT_DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG: Final = "default.deserialization.exception.handler"
    DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG: Final = "deserialization.exception.handler"
    DEFAULT_PRODUCTION_EXCEPTION_HANDLER_CLASS_CONFIG: Final = "default.production.exception.handler"
    PRODUCTION_EXCEPTION_HANDLER_CLASS_CONFIG: Final = "production.exception.handler"
    DEFAULT_DSL_STORE_CONFIG: Final = "default.dsl.store"
    DSL_STORE_SUPPLIERS_CLASS_CONFIG: Final = "dsl.store.suppliers.class"
    DSL_STORE_FORMAT_CONFIG: Final = "dsl.store.format"
    DEFAULT_KEY_SERDE_CLASS_CONFIG: Final = "default.key.serde"
    DEFAULT_VALUE_SERDE_CLASS_CONFIG: Final = "default.value.serde"
    DEFAULT_TIMESTAMP_EXTRACTOR_CLASS_CONFIG: Final = "default.timestamp.extractor"
    ENABLE_METRICS_PUSH_CONFIG: Final = "enable.metrics.push"
    ENSURE_EXPLICIT_INTERNAL_RESOURCE_NAMING_CONFIG: Final = "ensure.explicit.internal.resource.naming"
    GROUP_PROTOCOL_CONFIG: Final = "group.protocol"
    ERRORS_DEAD_LETTER_QUEUE_TOPIC_NAME_CONFIG: Final = "errors.dead.letter.queue.topic.name"
    LOG_SUMMARY_INTERVAL_MS_CONFIG: Final = "log.summary.interval.ms"
    MAX_TASK_IDLE_MS_CONFIG: Final = "max.task.idle.ms"
    MAX_WARMUP_REPLICAS_CONFIG: Final = "max.warmup.replicas"
    METADATA_MAX_AGE_CONFIG: Final = "metadata.max.age.ms"
    METRICS_NUM_SAMPLES_CONFIG: Final = "metrics.num.samples"
    METRICS_RECORDING_LEVEL_CONFIG: Final = "metrics.recording.level"
    METRIC_REPORTER_CLASSES_CONFIG: Final = "metric.reporters"
    METRICS_SAMPLE_WINDOW_MS_CONFIG: Final = "metrics.sample.window.ms"
    NUM_STANDBY_REPLICAS_CONFIG: Final = "num.standby.replicas"
    NUM_STREAM_THREADS_CONFIG: Final = "num.stream.threads"
    POLL_MS_CONFIG: Final = "poll.ms"
    PROBING_REBALANCE_INTERVAL_MS_CONFIG: Final = "probing.rebalance.interval.ms"
    PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG: Final = "processing.exception.handler"
    PROCESSING_GUARANTEE_CONFIG: Final = "processing.guarantee"
    PROCESSOR_WRAPPER_CLASS_CONFIG: Final = "processor.wrapper.class"
    REPARTITION_PURGE_INTERVAL_MS_CONFIG: Final = "repartition.purge.interval.ms"
    RECEIVE_BUFFER_CONFIG: Final = "receive.buffer.bytes"
    RACK_AWARE_ASSIGNMENT_NON_OVERLAP_COST_CONFIG: Final = "rack.aware.assignment.non_overlap_cost"
    RACK_AWARE_ASSIGNMENT_STRATEGY_CONFIG: Final = "rack.aware.assignment.strategy"
    RACK_AWARE_ASSIGNMENT_TAGS_CONFIG: Final = "rack.aware.assignment.tags"
    RACK_AWARE_ASSIGNMENT_TRAFFIC_COST_CONFIG: Final = "rack.aware.assignment.traffic_cost"
    RECONNECT_BACKOFF_MS_CONFIG: Final = "reconnect.backoff.ms"
    RECONNECT_BACKOFF_MAX_MS_CONFIG: Final = "reconnect.backoff.max.ms"
    REPLICATION_FACTOR_CONFIG: Final = "replication.factor"
    REQUEST_TIMEOUT_MS_CONFIG: Final = "request.timeout.ms"
    RETRY_BACKOFF_MS_CONFIG: Final = "retry.backoff.ms"
    ROCKSDB_CONFIG_SETTER_CLASS_CONFIG: Final = "rocksdb.config.setter"
    SECURITY_PROTOCOL_CONFIG: Final = "security.protocol"
    SEND_BUFFER_CONFIG: Final = "send.buffer.bytes"
    STATE_CLEANUP_DELAY_MS_CONFIG: Final = "state.cleanup.delay.ms"
    STATE_CLEANUP_DIR_MAX_AGE_MS_CONFIG: Final = "state.cleanup.dir.max.age.ms"
    STATE_DIR_CONFIG: Final = "state.dir"
    STATESTORE_CACHE_MAX_BYTES_CONFIG: Final = "statestore.cache.max.bytes"
    TASK_ASSIGNOR_CLASS_CONFIG: Final = "task.assignor.class"
    TASK_TIMEOUT_MS_CONFIG: Final = "task.timeout.ms"
    UPGRADE_FROM_CONFIG: Final = "upgrade.from"
    TOPOLOGY_OPTIMIZATION_CONFIG: Final = "topology.optimization"
    WINDOWED_INNER_CLASS_SERDE: Final = "windowed.inner.class.serde"
    WINDOW_SIZE_MS_CONFIG: Final = "window.size.ms"
    WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG: Final = "windowstore.changelog.additional.retention.ms"
    PROCESSING_EXCEPTION_HANDLER_GLOBAL_ENABLED_CONFIG: Final = "processing.exception.handler.global.enabled"

    @staticmethod
    def consumer_prefix(name: str) -> str:
        """The key that sets `name` for all consumers."""
        return f"{ConfigConstants.CONSUMER_PREFIX}{name}"

    @staticmethod
    def main_consumer_prefix(name: str) -> str:
        """The key that sets `name` for the consumers that read input."""
        return f"{ConfigConstants.MAIN_CONSUMER_PREFIX}{name}"

    @staticmethod
    def restore_consumer_prefix(name: str) -> str:
        """The key that sets `name` for the consumers that restore stores."""
        return f"{ConfigConstants.RESTORE_CONSUMER_PREFIX}{name}"

    @staticmethod
    def global_consumer_prefix(name: str) -> str:
        """The key that sets `name` for the consumers of global stores."""
        return f"{ConfigConstants.GLOBAL_CONSUMER_PREFIX}{name}"

    @staticmethod
    def producer_prefix(name: str) -> str:
        """The key that sets `name` for producers."""
        return f"{ConfigConstants.PRODUCER_PREFIX}{name}"

    @staticmethod
    def admin_client_prefix(name: str) -> str:
        """The key that sets `name` for admin clients."""
        return f"{ConfigConstants.ADMIN_CLIENT_PREFIX}{name}"

    @staticmethod
    def topic_prefix(name: str) -> str:
        """The key that sets `name` for internal topics."""
        return f"{ConfigConstants.TOPIC_PREFIX}{name}"

    @staticmethod
    def client_tag_prefix(name: str) -> str:
        """The key of a tag of this instance."""
        return f"{ConfigConstants.CLIENT_TAG_PREFIX}{name}"
