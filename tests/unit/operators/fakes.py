"""A context and stores small enough to read, for tests of single operators."""

from penstock.operators import KTableAggregate, KTableFilter, KTableReduce
from penstock.processor import ValueTransformerWithKey
from penstock.record import Record, RecordContext, RecordMetadata
from penstock.runtime.current_record import CurrentRecord
from penstock.state.store import (
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
    KeyValueStore,
    VersionedKeyValueStore,
    VersionedRecord,
)


class FakeContext(CurrentRecord):
    """Collects what is forwarded as `(key, value, timestamp)`, and what is dropped."""

    def __init__(self, app_configs=None, **stores):
        self.stores = stores
        self.forwarded = []
        self.dropped = []
        self.current_node = "me"
        self.nodes_at_forward = []
        self.app_configs = app_configs or {}
        self.record_context = RecordContext(0, 7, 3, "topic")
        self.record_metadata = RecordMetadata("topic", 3, 7)

    def forward(self, record, child=None):
        self.nodes_at_forward.append(self.current_node)
        row = (record.key, record.value, record.timestamp)
        self.forwarded.append(row if child is None else (*row, child))
        self.last = record

    def forward_batch(self, batch, child=None):
        for row in range(len(batch)):
            self.forward(batch.record(row), child)

    def get_state_store(self, name):
        return self.stores[name]

    def record_dropped(self, reason):
        self.dropped.append(reason)

    def take(self):
        taken, self.forwarded = self.forwarded, []
        return taken


def abstract_free(cls):
    """Lets a fake implement only what operators use of a store."""
    cls.__abstractmethods__ = frozenset()
    return cls


@abstract_free
class FakeStore(KeyValueStore):
    """A timestamped store; with a cache it swallows changes until `flush`."""

    name = "store"

    def __init__(self, caching=False):
        self.rows = {}
        self.caching = caching
        self.listener = None

    def set_flush_listener(self, listener, send_old_values):
        self.listener = listener
        self.send_old_values = send_old_values
        return self.caching

    def get(self, key):
        return self.rows.get(key)

    def put(self, key, value):
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value

    def contents(self):
        return {key: (row.value, row.timestamp) for key, row in self.rows.items()}


@abstract_free
class FakeVersionedStore(VersionedKeyValueStore):
    """Keeps all versions of a key; refuses those before `oldest`."""

    name = "store"

    def __init__(self, oldest=0):
        self.oldest = oldest
        self.versions = {}

    def set_flush_listener(self, listener, send_old_values):
        return False

    def put(self, key, value, timestamp):
        if timestamp < self.oldest:
            return PUT_RETURN_CODE_NOT_PUT
        versions = self.versions.setdefault(key, {})
        versions[timestamp] = value
        later = [other for other in versions if other > timestamp]
        return min(later) if later else PUT_RETURN_CODE_VALID_TO_UNDEFINED

    def get(self, key, as_of=None):
        times = [time for time in self.versions.get(key, {}) if as_of is None or time <= as_of]
        value = self.versions[key][max(times)] if times else None
        return None if value is None else VersionedRecord(value, max(times))


class FakeParent:
    """A table above an operator, with or without old values, whose rows are in a store."""

    def __init__(self, sends_old_values=False, getter_supplier=None):
        self.sends_old_values = sends_old_values
        self.forced = False
        self.getter_supplier = getter_supplier

    def enable_sending_old_values(self, force_materialization):
        if force_materialization:
            self.forced = self.sends_old_values = True
        return self.sends_old_values

    def value_getter_supplier(self):
        return self.getter_supplier


def run(supplier, context, *rows):
    """Makes a processor and feeds it `(key, value, timestamp)` rows."""
    processor = supplier()
    processor.init(context)
    for key, value, timestamp in rows:
        processor.process(Record(key, value, timestamp, (("h", b"1"),)))
    return processor


ROWS = [("a", 1, 10), (None, None, 20), ("c", 3, 30)]


def outputs(supplier, rows=tuple(ROWS)):
    """What a stateless operator makes of rows."""
    context = FakeContext()
    run(supplier, context, *rows)
    return context.forwarded


def add(key, value, aggregate):
    """An adder whose results tell what was added."""
    return f"{aggregate}+{value}"


def remove(key, value, aggregate):
    """A subtractor whose results tell what was taken away."""
    return f"{aggregate}-{value}"


def table_aggregate():
    """An aggregation of a table that adds and subtracts."""
    return KTableAggregate("store", lambda: "0", add, remove)


def table_reduce():
    """The same as a reduction."""
    return KTableReduce("store", lambda a, b: f"{a}+{b}", lambda a, b: f"{a}-{b}")


def results(supplier, *rows, store=None, old=False):
    """The context of an aggregation that was given rows."""
    if old:
        supplier.enable_sending_old_values(False)
    context = FakeContext(store=store or FakeStore())
    run(supplier, context, *rows)
    return context


def even(key, value):
    """A predicate."""
    return value % 2 == 0


def times_ten(key, value):
    """A mapper."""
    return value * 10


class Describe(ValueTransformerWithKey):
    """Tells what it is given, and the time of the record it sees."""

    closed = 0

    def init(self, context):
        self.context = context

    def transform(self, key, value):
        return f"{key}:{value}@{self.context.record_context.timestamp}"

    def close(self):
        type(self).closed += 1


def on(supplier_type, *arguments, parent=None, queryable=None):
    """An operator on a table."""
    return supplier_type(parent or FakeParent(), *arguments, queryable)


def filtered(parent=None, queryable=None, filter_not=False):
    """A table of even values."""
    return KTableFilter(parent or FakeParent(), even, filter_not, queryable)
