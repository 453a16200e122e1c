import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.columns.columns import Columns, RawColumns
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
    batched.process_columns(Columns(keys, values, times, headers, RawColumns("t", 0, range(5), times, keys, values)))
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
    with pytest.raises(StreamsError, match="map_batches cannot put the values"):
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
