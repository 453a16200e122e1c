"""An exception comes to the driver as data: its class where the driver knows it, its text where it does not."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

from penstock.client.scheduling.failures import error_of, is_transient
from penstock.errors import BrokerError, ProcessingError, SerializationError, StreamsError
from penstock.spark.messages import Failure, ThreadReport
from penstock.spark.raised import Raised
from penstock.spark.reports import read_report, write_report


class OutOfStockError(Exception):
    """With a constructor that does more than it should."""

    made = 0

    def __init__(self, item: str, left: int) -> None:
        super().__init__(item, left)
        OutOfStockError.made += 1
        self.item, self.left = item, left

    def __str__(self) -> str:
        return f"{self.item}: {self.left} left"


class OddError(OSError):
    def __init__(self, text: str, *, code: int) -> None:
        super().__init__(code, text)


class HoldsAnythingError(Exception):
    pass


class NeedsMoreError(Exception):
    def __init__(self, holder: Any) -> None:
        self.holder = holder

    def __str__(self) -> str:
        return f"held by {self.holder.name}"


def told(error: BaseException) -> Raised:
    """As the driver gets it."""
    report = ThreadReport("worker", failure=Failure("StreamsError", "", "", Raised.of(error)))
    failure = read_report(write_report(report)).failure
    assert failure is not None
    assert failure.error is not None
    return failure.error


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def unreadable_text() -> UnicodeDecodeError:
    try:
        b"\xff".decode()
    except UnicodeDecodeError as exc:
        return exc
    raise AssertionError


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no number"),
        ValueError(),
        KeyError("k"),
        FileNotFoundError(2, "not there", "file"),
        unreadable_text(),
        StopIteration(4),
        SerializationError("bytes"),
        HoldsAnythingError(1, "two", [3.0, None], {"four": b"4"}),
        OddError("odd", code=7),
    ],
)
def test_should_make_an_exception_again_whose_class_is_known(error: Exception) -> None:
    made = told(error).exception()
    assert type(made) is type(error)
    assert made is not None
    assert (made.args, str(made), vars(made)) == (error.args, str(error), vars(error))


def test_should_not_run_the_constructor_of_a_class_that_a_message_names() -> None:
    error = OutOfStockError("bolts", 3)
    before = OutOfStockError.made
    made = told(error).exception()
    assert isinstance(made, OutOfStockError)
    assert (made.item, made.left, str(made)) == ("bolts", 3, "bolts: 3 left")
    assert OutOfStockError.made == before


def test_should_keep_the_class_where_only_the_arguments_are_not_plain() -> None:
    made = told(HoldsAnythingError("kept", object())).exception()
    assert isinstance(made, HoldsAnythingError)
    assert "kept" in str(made)


def test_should_tell_as_text_what_cannot_say_what_it_means_without_the_rest() -> None:
    class Holder:
        name = "somebody"

    raised = told(NeedsMoreError(Holder()))
    assert raised.exception() is None
    assert str(raised.as_text()).endswith("NeedsMoreError: held by somebody")


def test_should_tell_a_class_that_is_not_known_here_as_text_with_its_causes() -> None:
    class LocalError(Exception):
        pass

    error = error_of(Failure("StreamsError", "x", "the traceback", told(caused(LocalError("gone"), KeyError("k")))))
    assert type(error) is StreamsError
    assert str(error).endswith("LocalError: gone")
    assert isinstance(error.__cause__, KeyError)
    assert str(error.__cause__.__cause__) == "the traceback"


def test_should_keep_the_users_exception_as_the_cause() -> None:
    failed = caused(ProcessingError("in map"), caused(ValueError("boom"), KeyError("k")))
    error = error_of(Failure("ProcessingError", "in map", "the traceback", told(failed)))
    assert isinstance(error, ProcessingError)
    assert isinstance(error.__cause__, ValueError)
    assert isinstance(error.__cause__.__cause__, KeyError)


def test_should_know_by_its_kind_what_passes_by_itself() -> None:
    assert is_transient(error_of(Failure("BrokerError", "away", "")))
    assert is_transient(error_of(Failure("BrokerError", "away", "", told(BrokerError("away")))))
    for kind in ("annotations", "no such thing", "ValueError"):
        assert type(error_of(Failure(kind, "", ""))) is StreamsError


@pytest.mark.parametrize(
    "name", [("os", "system"), ("builtins", "eval"), ("pathlib", "Path"), ("penstock.errors", "annotations")]
)
def test_should_make_nothing_but_exceptions(name: tuple[str, str], tmp_path: Path) -> None:
    assert Raised(*name, "text").exception() is None


def test_should_import_nothing_for_a_name_and_run_no_code_to_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = ModuleType("lazy_module")

    def look_up(name: str) -> NoReturn:
        raise AssertionError(f"asked for {name}")

    lazy.__dict__["__getattr__"] = look_up
    monkeypatch.setitem(sys.modules, "lazy_module", lazy)
    assert Raised("lazy_module", "AnyError", "text").exception() is None
    assert "wave" not in sys.modules
    assert Raised("wave", "AnyError", "text").exception() is None
    assert "wave" not in sys.modules


def test_should_raise_nothing_in_the_driver_that_would_end_it() -> None:
    error = error_of(Failure("StreamsError", "", "", told(SystemExit(3))))
    assert isinstance(error, StreamsError)
    assert "SystemExit" in str(error)


def test_should_tell_of_long_chains_and_texts_only_so_much() -> None:
    error: BaseException = ValueError("x" * 3_000_000)
    for _ in range(100):
        error = caused(ValueError("y"), error)
    assert len(write_report(ThreadReport("w", failure=Failure("", "", "", Raised.of(error))))) < 10_000
    long = told(ValueError("x" * 3_000_000))
    assert len(long.text) < 200_000
    assert type(long.exception()) is ValueError


def test_should_not_unpickle_an_error(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    data = pickle.dumps(Evil())
    assert told(ValueError(data)).exception() is not None
    assert Raised("builtins", "ValueError", "", data, data).exception() is None
    assert not (tmp_path / "ran").exists()
