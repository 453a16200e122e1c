"""KStream.print."""

import io
import pickle
import sys

import pytest

from penstock.errors import TopologyError
from penstock.operators import KStreamPrint, PrintForeachAction
from tests.unit.operators.fakes import FakeContext, outputs, run


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
