"""What the nodes of a topology do with records, one operator a file, under Kafka Streams' class names."""

from __future__ import annotations

from penstock.operators.aggregate import KStreamAggregate
from penstock.operators.branch import KStreamBranch
from penstock.operators.files import KStreamToFiles
from penstock.operators.filter import KStreamFilter
from penstock.operators.flat_map import KStreamFlatMap
from penstock.operators.flat_map_values import KStreamFlatMapValues
from penstock.operators.foreach import ForeachProcessor, ForeachProcessorSupplier
from penstock.operators.forwarding import SessionCacheFlushListener, TimestampedCacheFlushListener, TimestampedTupleForwarder
from penstock.operators.joins.foreign_key.combined_key import CombinedKey, CombinedKeySchema
from penstock.operators.joins.foreign_key.extractor import ForeignKeyExtractor
from penstock.operators.joins.foreign_key.foreign_table_join import ForeignTableJoinProcessorSupplier
from penstock.operators.joins.foreign_key.response_join import ResponseJoinProcessorSupplier
from penstock.operators.joins.foreign_key.response_wrapper import SubscriptionResponseWrapper, SubscriptionResponseWrapperSerde
from penstock.operators.joins.foreign_key.subscription_join import SubscriptionJoinProcessorSupplier
from penstock.operators.joins.foreign_key.subscription_receive import SubscriptionReceiveProcessorSupplier
from penstock.operators.joins.foreign_key.subscription_send import SubscriptionSendProcessorSupplier
from penstock.operators.joins.foreign_key.subscription_wrapper import SubscriptionWrapper, SubscriptionWrapperSerde
from penstock.operators.joins.join_window import KStreamJoinWindow
from penstock.operators.joins.outer_join_store import (
    LeftOrRightValue,
    LeftOrRightValueSerde,
    TimestampedKeyAndJoinSide,
    TimestampedKeyAndJoinSideSerde,
)
from penstock.operators.joins.self_join import KStreamKStreamSelfJoin
from penstock.operators.joins.shared_times import TimeTracker, TimeTrackerSupplier
from penstock.operators.joins.stream_dataframe_join import KStreamDataFrameJoin
from penstock.operators.joins.stream_global_table_join import KStreamGlobalKTableJoin
from penstock.operators.joins.stream_stream_join import (
    KStreamKStreamJoin,
    KStreamKStreamJoinLeftSide,
    KStreamKStreamJoinRightSide,
)
from penstock.operators.joins.stream_table_join import KStreamKTableJoin, KStreamKTableJoinProcessor
from penstock.operators.joins.table_table_inner_join import KTableKTableInnerJoin
from penstock.operators.joins.table_table_join import KTableKTableAbstractJoin
from penstock.operators.joins.table_table_left_join import KTableKTableLeftJoin
from penstock.operators.joins.table_table_merge import KTableKTableJoinMerger
from penstock.operators.joins.table_table_outer_join import KTableKTableOuterJoin
from penstock.operators.joins.table_table_right_join import KTableKTableRightJoin
from penstock.operators.map import KStreamMap
from penstock.operators.map_batches import KStreamMapBatches
from penstock.operators.map_values import KStreamMapValues
from penstock.operators.pass_through import PassThrough
from penstock.operators.peek import KStreamPeek
from penstock.operators.print import KStreamPrint, PrintForeachAction
from penstock.operators.reduce import KStreamReduce
from penstock.operators.session_window_aggregate import KStreamSessionWindowAggregate
from penstock.operators.sliding_window_aggregate import KStreamSlidingWindowAggregate
from penstock.operators.store_wrapper import KeyValueStoreWrapper
from penstock.operators.suppress import KTableSuppressProcessorSupplier, SuppressedInternal, record_time, window_end_time
from penstock.operators.table_aggregate import KTableAggregate
from penstock.operators.table_filter import KTableFilter
from penstock.operators.table_map_values import KTableMapValues
from penstock.operators.table_pass_through import KTablePassThrough
from penstock.operators.table_reduce import KTableReduce
from penstock.operators.table_repartition_map import KTableRepartitionMap
from penstock.operators.table_source import KTableSource
from penstock.operators.table_transform_values import KTableTransformValues
from penstock.operators.value_getters import (
    KTableMaterializedValueGetterSupplier,
    KTableProcessorSupplier,
    KTableValueGetter,
    KTableValueGetterSupplier,
)
from penstock.operators.window_aggregate import KStreamWindowAggregate

__all__ = [
    "CombinedKey",
    "CombinedKeySchema",
    "ForeachProcessor",
    "ForeachProcessorSupplier",
    "ForeignKeyExtractor",
    "ForeignTableJoinProcessorSupplier",
    "KStreamAggregate",
    "KStreamBranch",
    "KStreamDataFrameJoin",
    "KStreamFilter",
    "KStreamFlatMap",
    "KStreamFlatMapValues",
    "KStreamGlobalKTableJoin",
    "KStreamJoinWindow",
    "KStreamKStreamJoin",
    "KStreamKStreamJoinLeftSide",
    "KStreamKStreamJoinRightSide",
    "KStreamKStreamSelfJoin",
    "KStreamKTableJoin",
    "KStreamKTableJoinProcessor",
    "KStreamMap",
    "KStreamMapBatches",
    "KStreamMapValues",
    "KStreamPeek",
    "KStreamPrint",
    "KStreamReduce",
    "KStreamSessionWindowAggregate",
    "KStreamSlidingWindowAggregate",
    "KStreamToFiles",
    "KStreamWindowAggregate",
    "KTableAggregate",
    "KTableFilter",
    "KTableKTableAbstractJoin",
    "KTableKTableInnerJoin",
    "KTableKTableJoinMerger",
    "KTableKTableLeftJoin",
    "KTableKTableOuterJoin",
    "KTableKTableRightJoin",
    "KTableMapValues",
    "KTableMaterializedValueGetterSupplier",
    "KTablePassThrough",
    "KTableProcessorSupplier",
    "KTableReduce",
    "KTableRepartitionMap",
    "KTableSource",
    "KTableSuppressProcessorSupplier",
    "KTableTransformValues",
    "KTableValueGetter",
    "KTableValueGetterSupplier",
    "KeyValueStoreWrapper",
    "LeftOrRightValue",
    "LeftOrRightValueSerde",
    "PassThrough",
    "PrintForeachAction",
    "ResponseJoinProcessorSupplier",
    "SessionCacheFlushListener",
    "SubscriptionJoinProcessorSupplier",
    "SubscriptionReceiveProcessorSupplier",
    "SubscriptionResponseWrapper",
    "SubscriptionResponseWrapperSerde",
    "SubscriptionSendProcessorSupplier",
    "SubscriptionWrapper",
    "SubscriptionWrapperSerde",
    "SuppressedInternal",
    "TimeTracker",
    "TimeTrackerSupplier",
    "TimestampedCacheFlushListener",
    "TimestampedKeyAndJoinSide",
    "TimestampedKeyAndJoinSideSerde",
    "TimestampedTupleForwarder",
    "record_time",
    "window_end_time",
]
