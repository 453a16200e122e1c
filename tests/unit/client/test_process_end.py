"""How long a process lasts in which an application was started; each case is a process, its application a played one."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from penstock.client.process_end import StopSignal
from tests.harness.waiting import LIMIT

_PLAYED = """
import os, signal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from penstock.client.process_end import process_end
from penstock.client.state import State

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background has it ignored

class Played:
    # Works in a pool, as applications do, until it is closed or has done all.
    def __init__(self, turns=1_000_000, state=State.RUNNING):
        self.state = state
        self._pool = ThreadPoolExecutor(1)
        self._thread = threading.Thread(target=self._work, args=(turns,), daemon=True)
        self._thread.start()

    def _work(self, turns):
        number = 0
        while self.state is State.RUNNING:
            try:
                self._pool.submit(time.sleep, 0.01).result()
            except RuntimeError:  # no pool takes anything any more
                return
            number += 1
            if number == 20:
                print("works", flush=True)
            if number == turns:
                print("failed", flush=True)
                process_end.failed("played-1", "ValueError: no")
                self.state = State.ERROR

    def close(self, timeout):
        self.state = State.NOT_RUNNING
        self._thread.join()
        print("closed", flush=True)
        return True

"""


class _Script:
    """A script in a process, which is gone when the test is."""

    def __init__(self, text: str, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *options, "-c", _PLAYED + text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> _Script:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait_for_line(self) -> str:
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], 60)[0], "it says nothing"
        return self._process.stdout.readline().strip()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        said, complained = self._process.communicate(timeout=LIMIT)
        return self._process.returncode, said, complained


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_should_go_on_after_the_script_until_a_signal_closes_the_application(number: int) -> None:
    with _Script("process_end.last_as_long_as(Played())") as script:
        assert script.wait_for_line() == "works"
        script.signal(number)
        assert script.end() == (0, "closed\n", "")


_FAILED = "penstock: the application played-1 failed: ValueError: no\n"


def test_should_end_with_1_and_name_the_failure_when_the_application_fails() -> None:
    with _Script("process_end.last_as_long_as(Played(turns=30))") as script:
        assert script.end() == (1, "works\nfailed\n", _FAILED)


def test_should_end_with_1_if_the_application_failed_before_the_script_ended() -> None:
    failed = "played = Played(turns=1); process_end.last_as_long_as(played); played._thread.join(); del played"
    with _Script(failed) as script:
        assert script.end() == (1, "failed\n", _FAILED)


def test_should_let_an_application_that_fails_give_back_what_it_uses() -> None:
    with _Script("played = Played(state=State.PENDING_ERROR); process_end.last_as_long_as(played)") as script:
        assert script.end() == (0, "closed\n", "")


def test_should_leave_the_exit_code_to_a_script_that_knows_of_the_failure() -> None:
    known = "played = Played(turns=1); process_end.last_as_long_as(played); played._thread.join()"
    with _Script(f"{known}; process_end.forget_failure('played-1'); sys.exit(3)") as script:
        assert script.end() == (3, "failed\n", "")


def test_should_run_all_exit_handlers_once_before_it_ends_with_1() -> None:
    handlers = "import atexit; atexit.register(print, 'first'); process_end.last_as_long_as(Played(turns=1))"
    with _Script(f"{handlers}; atexit.register(print, 'second')") as script:
        assert script.end() == (1, "failed\nsecond\nfirst\n", _FAILED)


def test_should_end_with_1_if_standard_error_is_closed() -> None:
    with _Script("process_end.last_as_long_as(Played(turns=1)); sys.stderr.close()") as script:
        assert script.end() == (1, "failed\n", "")


def test_should_wait_for_all_that_were_started() -> None:
    with _Script("process_end.last_as_long_as(Played(turns=1)); process_end.last_as_long_as(Played(turns=30))") as script:
        assert script.end() == (1, "failed\nworks\nfailed\n", _FAILED)


@pytest.mark.parametrize("state", ["CREATED", "PENDING_SHUTDOWN", "NOT_RUNNING", "ERROR"])
def test_should_not_wait_for_what_does_not_work(state: str) -> None:
    with _Script(f"process_end.last_as_long_as(Played(state=State.{state}))") as script:
        assert script.end() == (0, "", "")


def test_should_close_and_end_with_a_script_that_fails() -> None:
    with _Script("process_end.last_as_long_as(Played()); 1 / 0") as script:
        code, said, complained = script.end()
        assert (code, said) == (1, "closed\n")
        assert complained.endswith("ZeroDivisionError: division by zero\n")


def test_should_close_and_end_with_a_script_that_is_interrupted() -> None:
    with _Script("process_end.last_as_long_as(Played())\nwhile True: time.sleep(1)") as script:
        assert script.wait_for_line() == "works"
        script.signal(signal.SIGINT)
        code, said, _ = script.end()
        assert (code, said) == (-signal.SIGINT, "closed\n")


@pytest.mark.parametrize("text", ["sys.ps1 = '>>> '", "import _pytest"], ids=["interactive", "test runner"])
def test_should_not_keep_a_process_that_is_somebodys(text: str) -> None:
    with _Script(f"process_end.last_as_long_as(Played()); {text}") as script:
        assert script.end() == (0, "closed\n" if "ps1" in text else "", "")


def test_should_leave_signals_to_the_user_who_has_taken_them() -> None:
    taken = "signal.signal(signal.SIGTERM, lambda *_: print('mine', flush=True)); process_end.last_as_long_as(Played())"
    with _Script(taken) as script:
        assert script.wait_for_line() == "works"
        script.signal(signal.SIGTERM)
        assert script.wait_for_line() == "mine"
        script.signal(signal.SIGINT)
        assert script.end() == (0, "closed\n", "")


def test_should_close_where_the_users_handler_wants_to_exit() -> None:
    with _Script("signal.signal(signal.SIGTERM, lambda *_: sys.exit()); process_end.last_as_long_as(Played())") as script:
        assert script.wait_for_line() == "works"
        script.signal(signal.SIGTERM)
        assert script.end() == (0, "closed\n", "")


def test_should_let_processes_go_that_were_forked_from_it() -> None:
    forks = """
played = Played()
process_end.last_as_long_as(played)
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=lambda: None)
child.start()
child.join(30)
print(child.exitcode)
played.close(0)
"""
    with _Script(forks) as script:
        assert script.end() == (0, "0\nclosed\n", "")


def test_should_take_the_first_signal_and_leave_the_second_to_others() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []
    signal.signal(signal.SIGTERM, lambda *_: seen.append("second"))
    try:
        with StopSignal() as stop:
            stop.arm()  # as after somebody else has taken the signals
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.wait(LIMIT)
            assert seen == []
            os.kill(os.getpid(), signal.SIGTERM)
            assert seen == ["second"]
    finally:
        signal.signal(signal.SIGTERM, before)
