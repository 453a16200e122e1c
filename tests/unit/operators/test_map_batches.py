import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.batches.record_batch import RawBatch, RecordBatch
from penstock.errors import StreamsError
from penstock.operators import KStreamMapBatches
from penstock.operators.map_batches import PandasMapper, batch_of, columns_of
from penstock.record import Record
from tests.unit.operators.fakes import FakeContext, run

HEADERS = (("h", b"1"), ("n", None))


def upper(batch):
    return batch.set_column(1, "value", pc.utf8_upper(batch.column("value")))


def test_should_map_one_record_as_a_batch_of_one():
    context = FakeContext()
    run(KStreamMapBatches(upper), context, ("a", "x", 10))
    assert context.forwarded == [("a", "X", 10)]
    assert context.last.headers == (("h", b"1"),)


def test_should_give_the_same_record_by_record_and_in_batches():
    def keep_long(batch):
        return upper(batch.filter(pc.greater(pc.utf8_length(batch.column("value")), 1)))

    records = [Record(str(n), "x" * n, n, HEADERS if n % 2 else ()) for n in range(5)]
    one, many = FakeContext(), FakeContext()
    single, batched = KStreamMapBatches(keep_long)(), KStreamMapBatches(keep_long)()
    single.init(one)
    batched.init(many)
    for record in records:
        single.process(record)
    headers = [record.headers for record in records]
    keys, values, times = ([getattr(record, name) for record in records] for name in ("key", "value", "timestamp"))
    batched.process_batch(RecordBatch(keys, values, times, headers, RawBatch("t", 0, range(5), times, keys, values)))
    assert one.forwarded == many.forwarded == [(str(n), "X" * n, n) for n in range(2, 5)]


def test_should_turn_records_into_columns_and_back():
    columns = (["a", None], [{"x": [1]}, {"x": None}], [1, 2], [HEADERS, ()])
    assert columns_of(batch_of(*columns)) == columns
    assert batch_of(["a"], [1], [1]).schema.names == ["key", "value", "timestamp"]


def test_should_accept_tables_and_extra_columns_in_any_order():
    table = pa.table({"extra": [1], "timestamp": pa.array([5], pa.int32()), "value": ["v"], "key": ["k"]})
    assert columns_of(table) == (["k"], ["v"], [5], [()])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "NoneType"),
        (pa.RecordBatch.from_pydict({"key": ["k"], "value": ["v"]}), r"columns \['key', 'value'\]"),
        (
            pa.RecordBatch.from_pydict({"key": ["k"], "value": ["v"], "timestamp": pa.array([None], pa.int64())}),
            "without a timestamp",
        ),
    ],
)
def test_should_say_what_the_function_must_return(result, message):
    with pytest.raises(StreamsError, match=message):
        run(KStreamMapBatches(lambda batch: result), FakeContext(), ("a", 1, 1))


@pytest.mark.parametrize("values", [[object()], ["a", 1], [2**70]])
def test_should_say_which_column_arrow_cannot_hold(values):
    with pytest.raises(StreamsError, match=r"map_batches cannot put a value of type .* without changing it"):
        batch_of(["k"] * len(values), values, [1] * len(values))


def test_should_show_records_to_pandas_as_they_are_and_take_them_back():
    columns = (["a", None, "c"], [1, None, 3], [1, 2, 3], [HEADERS, (), ()])
    seen = []

    def double(frame):
        seen.append(frame)
        return frame.assign(value=[None if value is None else 2 * value for value in frame.value])

    assert columns_of(PandasMapper(double)(batch_of(*columns))) == (["a", None, "c"], [2, None, 6], [1, 2, 3], [HEADERS, (), ()])
    assert list(seen[0].columns) == ["key", "value", "timestamp", "headers"]
    assert [type(value) for value in seen[0].value] == [int, type(None), int]


def test_should_leave_out_rows_that_pandas_left_out():
    mapper = PandasMapper(lambda frame: frame[frame.value > 1].assign(key=lambda some: some.key.str.upper()))
    assert columns_of(mapper(batch_of(["a", "b", "c"], [1, 2, 3], [1, 2, 3]))) == (["B", "C"], [2, 3], [2, 3], [(), ()])
    context = FakeContext()
    run(KStreamMapBatches(mapper), context, ("a", 1, 10), ("b", 5, 11))
    assert context.forwarded == [("B", 5, 11)]


def test_should_take_what_pandas_has_for_missing_as_null():
    mapper = PandasMapper(lambda frame: frame.assign(value=frame.value / 0.0))
    assert columns_of(mapper(batch_of(["a", "b"], [0.0, 1.0], [1, 2])))[1] == [None, float("inf")]


@pytest.mark.parametrize(
    ("result", "message"), [(None, "got NoneType"), (lambda frame: frame[["key"]], r"got columns \['key'\]")]
)
def test_should_say_what_the_function_of_pandas_must_return(result, message):
    with pytest.raises(StreamsError, match=f"given to map_pandas must return a pandas.DataFrame.*{message}"):
        PandasMapper(lambda frame: result and result(frame))(batch_of(["a"], [1], [1]))


DICTS = [{"a": 1}, {"b": 2}, {"b": 2, "a": 1}, {"a": None}, {"a": 1}]
MIXED = [1, 2, 2.5, None, "a", True, b"b", *DICTS, [1, None], [], [[1]]]


def mapped(mapper, values, many, schema=None):
    """What comes of records one by one, or all at once, with the rows that failed."""
    failed = []

    class Context(FakeContext):
        def row_failed(self, columns, row, exception, at=None):
            assert isinstance(exception, StreamsError)
            failed.append(columns.timestamps[row])

    context = Context()
    processor = KStreamMapBatches(mapper, schema)()
    processor.init(context)
    times = list(range(len(values)))
    columns = RecordBatch(["k"] * len(values), values, times, None, RawBatch("t", 0, range(len(values)), times, times, times))
    for part in [columns] if many else [columns.rows(row, row + 1) for row in times]:
        processor.process_batch(part)
    return [(repr(value), time) for _, value, time in context.forwarded], failed


@pytest.mark.parametrize("mapper", [lambda batch: batch, PandasMapper(lambda frame: frame)])
def test_should_not_change_values_whatever_came_together(mapper):
    expected = [(repr(value), row) for row, value in enumerate(MIXED)]
    assert mapped(mapper, MIXED, many=False) == mapped(mapper, MIXED, many=True) == (expected, [])


@pytest.mark.parametrize("value", [2**63, [1, 2.5], [{"a": 1}, {"b": 2}], {1: 2}, (1, 2), {"a": (1,)}, object()])
def test_should_refuse_only_the_record_that_arrow_would_change(value):
    for many in (False, True):
        forwarded, failed = mapped(lambda batch: batch, ["a", value, "b"], many)
        assert (forwarded, failed) == ([("'a'", 0), ("'b'", 2)], [1])


def test_should_give_one_batch_the_types_of_a_schema():
    sizes = []

    def counting(batch):
        sizes.append(len(batch))
        return batch

    schema = pa.schema({"value": pa.struct({"a": pa.int64(), "b": pa.float64()})})
    forwarded, failed = mapped(counting, [{"a": 1}, {"b": 2}, None], many=True, schema=schema)
    assert (forwarded, failed) == ([("{'a': 1, 'b': None}", 0), ("{'a': None, 'b': 2.0}", 1), ("None", 2)], [])
    assert sizes == [3]
    assert mapped(counting, [{"c": 1}], many=True, schema=schema) == ([], [0])


def test_should_take_objects_of_pandas_each_by_itself():
    mapper = PandasMapper(lambda frame: frame.assign(value=[{"a": 1}, {"b": 2.5}, "text"]))
    assert columns_of(mapper(batch_of(["k"] * 3, [1, 2, 3], [1, 2, 3])))[1] == [{"a": 1}, {"b": 2.5}, "text"]
