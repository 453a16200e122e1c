"""Find the ends of record batches that the consumer cannot read, so that it can skip them."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka.log_transport import LogTransport
from penstock.kafka.record_batches import batch_end


class BatchEnds:
    """Reads headers of record batches from the partition leaders.

    librdkafka reports the first offset of an unreadable batch, but not its end. The batch header is uncompressed and holds the
    end.
    """

    def __init__(self, transport: Callable[[], LogTransport]) -> None:
        self._transport = transport

    def __call__(self, partition: TopicPartition, offset: int) -> int:
        """Return the offset after the batch that contains an offset."""
        try:
            transport = self._transport()
            try:
                transport.ask(partition, offset)
                return batch_end(transport.answer().records, offset)
            finally:
                transport.close()
        except Exception as exc:
            raise BrokerError(
                f"The end of the unreadable record batch of {partition} at offset {offset} could not be found: {exc}. "
                "Check that the partition's leader is up."
            ) from exc
