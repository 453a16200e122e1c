"""Write what the tasks of a turn hand back, and let the production exception handler decide on what the brokers refuse.

1. Write everything and finish: commit the transaction, or flush. Nearly always that is all.
2. Where the brokers refuse records, start over and write one by one, to learn which.
3. Ask the handler about each. It fails the turn, or goes on without the record: then what is left is written anew.

Kafka Streams asks the handler too, but cannot go on under exactly-once: a refused record leaves its transaction nothing but an
abort. Here the records of a turn are still at hand, so the turn is written again without those the handler gives up.
Under at-least-once the topics that were refused are written again from their first record: records may come twice, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.batches.record_batch import RecordOrBatch, records_of
from penstock.errors import ProductionError
from penstock.kafka.produce import RecordsRefusedError, ThreadProducer, Verdict, production_error
from penstock.record import ProducedRecord
from penstock.runtime.collector import RecordCollector


@dataclass
class TaskOutputs:
    """What one task writes in a turn, and who decides on what is refused of it."""

    collector: RecordCollector
    outputs: Sequence[RecordOrBatch]
    changelogs: Sequence[RecordOrBatch]
    dead_letters: list[ProducedRecord] = field(default_factory=list)
    given_up: Counter[ProducedRecord] = field(default_factory=Counter)

    def write(self, producer: ThreadProducer) -> None:
        """All of it, in order."""
        producer.write(self.outputs, self.decide)
        producer.write(self.changelogs, self.decide)
        producer.write(self.dead_letters)

    def decide(self, record: ProducedRecord, error: Exception) -> None:
        """Ask the handler: it raises, or the turn goes on without the record; dead letters are written in its place."""
        if any(record is letter for letter in self.dead_letters):
            raise ProductionError(f"a dead letter could not be written: {error}") from error
        self.collector.handle_send_error(record, error)
        self.given_up[record] += 1
        self.dead_letters += records_of(self.collector.drain()[0])

    def left(self) -> list[tuple[TaskOutputs, ProducedRecord]]:
        """What is still to be written."""
        given_up, left = self.given_up.copy(), list[tuple[TaskOutputs, ProducedRecord]]()
        for record in records_of((*self.outputs, *self.changelogs, *self.dead_letters)):
            if given_up[record]:
                given_up[record] -= 1
            else:
                left.append((self, record))
        return left


def write_batch(producer: ThreadProducer, parts: Sequence[TaskOutputs], finish: Callable[[], None]) -> None:
    """Write the parts and `finish`; returns when the brokers have all that was not given up."""
    producer.begin()
    try:
        for part in parts:
            part.write(producer)
        finish()
    except RecordsRefusedError as refusal:
        _write_again(producer, parts, finish, refusal)


def _write_again(
    producer: ThreadProducer, parts: Sequence[TaskOutputs], finish: Callable[[], None], refusal: RecordsRefusedError
) -> None:
    producer.start_over(_with_topics(refusal, parts))
    while True:
        left = [entry for part in parts for entry in part.left()]
        if not producer.transactional and refusal.topics:
            left = [(part, record) for part, record in left if record.topic in refusal.topics or record in part.dead_letters]
        verdicts = producer.write_one_by_one([record for _, record in left])
        if not verdicts:
            finish()
            return
        if not producer.alone and any(verdict.of_a_batch for verdict in verdicts.values()):
            producer.start_over(alone=True)  # each in a batch of its own: which of them it is shows then
            continue
        for index, verdict in _all_that_are_too_large(left, verdicts).items():
            part, record = left[index]
            part.decide(record, production_error(record, verdict))
        if not producer.transactional:
            producer.write([letter for part in parts for letter in part.dead_letters])
            finish()
            return
        producer.start_over()


def _with_topics(refusal: RecordsRefusedError, parts: Sequence[TaskOutputs]) -> RecordsRefusedError:
    """Which topics may be meant, where the brokers did not say."""
    if not refusal.topics:
        refusal.topics = frozenset(record.topic for part in parts for _, record in part.left())
    return refusal


def _all_that_are_too_large(
    left: Sequence[tuple[TaskOutputs, ProducedRecord]], verdicts: Mapping[int, Verdict]
) -> dict[int, Verdict]:
    """A transaction ends with its first refusal: records of the same topic that are no smaller share its verdict."""
    smallest: dict[str, int] = {}
    reasons: dict[str, Verdict] = {}
    for index, verdict in verdicts.items():
        record = left[index][1]
        if verdict.too_large:
            smallest[record.topic] = min(smallest.get(record.topic, _size(record)), _size(record))
            reasons[record.topic] = Verdict(verdict.error, None)
    shared = {i: reasons[r.topic] for i, (_, r) in enumerate(left) if r.topic in smallest and _size(r) >= smallest[r.topic]}
    return dict(sorted({**shared, **verdicts}.items()))


def _size(record: ProducedRecord) -> int:
    return len(record.key or b"") + len(record.value or b"") + sum(len(k) + len(v or b"") for k, v in record.headers)
