import io
import pickle
import sys

import pytest

from penstock.errors import StreamsError, TopologyError
from penstock.operators import (
    ForeachProcessorSupplier,
    KStreamAggregate,
    KStreamBranch,
    KStreamFilter,
    KStreamFlatMap,
    KStreamFlatMapValues,
    KStreamMap,
    KStreamMapValues,
    KStreamPeek,
    KStreamPrint,
    PassThrough,
    PrintForeachAction,
)
from penstock.record import FixedKeyRecord
from tests.unit.operators.fakes import FakeContext, run

ROWS = [("a", 1, 10), (None, None, 20), ("c", 3, 30)]


def outputs(supplier, rows=ROWS):
    context = FakeContext()
    run(supplier, context, *rows)
    return context.forwarded


def test_should_forward_records_for_which_the_predicate_holds():
    assert outputs(KStreamFilter(lambda key, value: value and value > 1, False)) == [("c", 3, 30)]
    # A predicate may return anything truthy, not only booleans.
    assert outputs(KStreamFilter(lambda key, value: value, True)) == [(None, None, 20)]
    assert outputs(KStreamFilter(lambda key, value: value, False)) == [("a", 1, 10), ("c", 3, 30)]


def test_should_map_keys_and_values():
    assert outputs(KStreamMap(lambda key, value: (value, key))) == [(1, "a", 10), (None, None, 20), (3, "c", 30)]


def test_should_say_that_map_must_return_a_pair():
    with pytest.raises(StreamsError, match="map returned None"):
        outputs(KStreamMap(lambda key, value: None))


def test_should_map_values_and_keep_the_rest_of_the_record():
    context = FakeContext()
    run(KStreamMapValues(lambda key, value: f"{key}{value}"), context, ("a", 1, 10))
    assert context.forwarded == [("a", "a1", 10)]
    assert context.last.headers == (("h", b"1"),)


def test_should_keep_fixed_key_records_fixed():
    context = FakeContext()
    processor = KStreamMapValues(lambda key, value: value + 1)()
    processor.init(context)
    processor.process(FixedKeyRecord("a", 1, 10))
    assert type(context.last) is FixedKeyRecord


def test_should_flat_map_to_any_number_of_records():
    mapper = KStreamFlatMap(lambda key, value: [(value, n) for n in range(value or 0)])
    assert outputs(mapper) == [(1, 0, 10), (3, 0, 30), (3, 1, 30), (3, 2, 30)]
    assert outputs(KStreamFlatMapValues(lambda key, value: "xy" if key == "a" else ())) == [("a", "x", 10), ("a", "y", 10)]


@pytest.mark.parametrize("supplier", [KStreamFlatMap, KStreamFlatMapValues])
def test_should_say_that_flat_map_must_return_an_iterable(supplier):
    with pytest.raises(StreamsError, match="returned None"):
        outputs(supplier(lambda key, value: None))


def test_should_peek_before_forwarding_and_end_with_foreach():
    seen = []
    assert outputs(KStreamPeek(lambda key, value: seen.append(key))) == ROWS
    assert outputs(ForeachProcessorSupplier(lambda key, value: seen.append(value))) == []
    assert seen == ["a", None, "c", 1, None, 3]


def test_should_pass_records_through():
    assert outputs(PassThrough()) == ROWS


def test_should_send_each_record_to_the_first_branch_that_fits():
    predicates = [lambda key, value: value == 1, lambda key, value: value in (1, 3)]
    assert outputs(KStreamBranch(predicates, ["one", "two"])) == [("a", 1, 10, "one"), ("c", 3, 30, "two")]
    with_default = outputs(KStreamBranch(predicates, ["one", "two", "rest"]))
    assert with_default[1] == (None, None, 20, "rest")


def test_should_print_as_java_does(capsys):
    assert outputs(KStreamPrint(PrintForeachAction(None, None, "label"))) == []
    assert capsys.readouterr().out == "[label]: a, 1\n[label]: null, null\n[label]: c, 3\n"


def test_should_print_what_a_mapper_makes_of_a_record_to_a_stream():
    out = io.StringIO()
    run(KStreamPrint(PrintForeachAction(out, lambda key, value: f"{key}->{value}", "x")), FakeContext(), ("a", True, 0)).close()
    assert out.getvalue() == "[x]: a->True\n"
    assert not out.closed


def test_should_print_to_a_file_that_is_emptied_once(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    supplier = KStreamPrint(PrintForeachAction(path, None, "x"))
    assert path.read_text() == ""
    supplier = pickle.loads(pickle.dumps(supplier))
    for task in range(2):
        run(supplier, FakeContext(), ("é", task, 0)).close()
    assert path.read_text(encoding="utf-8") == "[x]: é, 0\n[x]: é, 1\n"


@pytest.mark.parametrize("bad", ["", " ", "/no/such/folder/file"])
def test_should_say_which_file_cannot_be_written(bad):
    with pytest.raises(TopologyError, match="print"):
        PrintForeachAction(bad, None, "x")


def test_should_print_with_any_callable_too():
    seen = []
    run(KStreamPrint(lambda key, value: seen.append(key)), FakeContext(), ("a", 1, 0)).close()
    assert seen == ["a"]
    assert sys.stdout is not None


def test_should_say_which_suppliers_can_compute_again():
    assert KStreamFilter.recomputable
    assert not KStreamAggregate.recomputable
