"""`penstock query`, `logs` and `top` against a real query server over real stores."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from penstock import ValueAndTimestamp, __version__
from penstock.cli import app
from penstock.commands.logs import lines_of
from penstock.commands.query import shown_time
from penstock.commands.top import overview
from penstock.spark.queries import remote_tables
from tests.unit.client.web.served import Served

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"), token=TOKEN).serve()
    for key, value in {"a": 1, "b": 2, "c": 3}.items():
        _home(served, "counts", key).put(key, ValueAndTimestamp(value, 1_700_000_000_123))
    for start in (1000, 2000):
        _home(served, "windows", "a").put("a", ValueAndTimestamp(start, start), start)
    _home(served, "numbers", 7).put(7, {"name": "Ä"})
    served.world.commit()
    yield served
    served.close()


def _home(served: Served, name: str, key: Any) -> Any:
    world: Any = served.world
    task = world.locations.task_of_key(name, key, world.stores.store(name).key_serde)
    return world.write(name, task.partition)


def run(server: Served, *arguments: str) -> tuple[int, str, str]:
    command = [*arguments, "--server", server.address, "-c", f"application.server.token={TOKEN}"]
    result = CliRunner().invoke(app, command)
    return result.exit_code, result.stdout, result.stderr


def test_should_tell_the_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"penstock {__version__}\n")


def test_should_read_a_key(server: Served) -> None:
    assert run(server, "query", "counts", "b")[:2] == (0, "KEY  VALUE  TIMESTAMP\nb    2      2023-11-14T22:13:20.123Z\n")


def test_should_read_a_key_that_is_no_text(server: Served) -> None:
    code, shown, _ = run(server, "query", "numbers", "7", "--json")
    assert (code, json.loads(shown)["value"]) == (0, {"name": "Ä"})


def test_should_read_a_range_and_say_that_there_is_more(server: Served) -> None:
    code, shown, told = run(server, "query", "counts", "--from", "a", "--limit", "2")
    assert (code, [line.split()[:2] for line in shown.splitlines()[1:]]) == (0, [["a", "1"], ["b", "2"]])
    assert told == "more entries: --from c\n"


def test_should_read_windows_between_times(server: Served) -> None:
    code, shown, _ = run(server, "query", "windows", "a", "--from", "1970-01-01T00:00:01.500")
    assert (code, shown.splitlines()[1:]) == (0, ["a    1970-01-01T00:00:02.000Z  1970-01-01T00:00:03.000Z  2000"])


def test_should_list_the_stores(server: Served) -> None:
    code, shown, _ = run(server, "query")
    assert (code, "counts     key-value  3" in shown) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("counts", "zzz"), 1, "has no key zzz"),
        (("nothing",), 1, "There is no store nothing. Available: counts, "),
        (("windows",), 2, "give the key whose windows to read"),
        (("windows", "a", "--to", "soon"), 2, "'soon' is not a time"),
        (("numbers", "seven"), 1, "is not a key of store numbers"),
    ],
)
def test_should_say_what_cannot_be_read(server: Served, arguments: tuple[str, ...], code: int, reason: str) -> None:
    ended, _, told = run(server, "query", *arguments)
    assert (ended, reason in told) == (code, True), told


def test_should_say_that_the_token_is_missing(server: Served) -> None:
    result = CliRunner().invoke(app, ["query", "--server", server.address])
    assert (result.exit_code, "401" in result.stderr) == (2, True)


def test_should_take_address_and_token_from_settings_and_environment(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_SERVER_TOKEN", TOKEN)
    config = tmp_path / "app.toml"
    config.write_text(f'application.server = "{server.address}"\n')
    result = CliRunner().invoke(app, ["query", "counts", "a", "--config", str(config)])
    assert (result.exit_code, result.stdout.splitlines()[1].split()[:2]) == (0, ["a", "1"])


def test_should_ask_for_an_address_and_tell_where_nobody_answers() -> None:
    nowhere = CliRunner().invoke(app, ["top"])
    assert (nowhere.exit_code, "--server HOST:PORT" in nowhere.stderr) == (2, True)
    nobody = CliRunner().invoke(app, ["logs", "--server", "127.0.0.1:9"])
    assert (nobody.exit_code, "Connecting to the instance at 127.0.0.1:9 failed" in nobody.stderr) == (1, True)


def test_should_show_the_log_filtered(server: Served) -> None:
    log = logging.getLogger("penstock.anything")
    log.warning("the disk is nearly full")
    log.error("the disk is full")
    code, shown, _ = run(server, "logs", "--grep", "DISK")
    assert (code, [line.split(" ", 1)[1] for line in shown.splitlines()]) == (
        0,
        ["WARNING  the disk is nearly full", "ERROR    the disk is full"],
    )
    assert "nearly" not in run(server, "logs", "--level", "error")[1]
    assert run(server, "logs", "--level", "loud")[0] == 2


def test_should_show_dead_letters_among_the_lines() -> None:
    letter = {"to": "dead", "time": 8, "exception": "ValueError", "message": "no", "topic": "in", "partition": 1, "offset": 4}
    found = lines_of({"errors": [], "dead_letters": [{**letter, "more": "than is known"}]})
    assert found[0].text == "the record at in-1 @ 4 went to the dead letter topic dead: ValueError: no"


def test_should_show_the_application_once_in_a_pipe(server: Served) -> None:
    code, shown, _ = run(server, "top")
    assert code == 0
    assert shown.startswith("app RUNNING  up ")
    assert "\nStreamThread-1 " in shown
    assert "in-2" in shown
    assert "0_1" in shown


def test_should_show_the_number_of_each_thread_on_a_narrow_screen(server: Served) -> None:
    application = server.get("/api/app", {"Authorization": f"Bearer {TOKEN}"})[1]
    client = "a-shop-with-a-long-name-158c605d-4bbb-4e1f-9f0a-3588f077088b"
    named = [{**application["threads"][0], "name": f"{client}-StreamThread-{number}"} for number in (1, 12)]
    console = Console(width=60, record=True, file=None)
    with console.capture() as captured:
        console.print(overview({**application, "threads": named}, rows=None))
    assert "\nStreamThread-1 " in captured.get()
    assert "\nStreamThread-12 " in captured.get()


def test_should_cut_long_lists_to_the_screen(server: Served) -> None:
    application = server.get("/api/app", {"Authorization": f"Bearer {TOKEN}"})[1]
    task, partition = application["tasks"][0], application["partitions"][0]
    crowd = {**application, "tasks": [task] * 40, "partitions": [partition] * 40, "errors": [], "dead_letters": []}
    console = Console(width=100, height=30, record=True, file=None)
    with console.capture() as captured:
        console.print(overview(crowd, rows=14))
    shown = captured.get()
    assert len(shown.splitlines()) <= 30
    assert "more tasks" in shown
    assert "more partitions behind" in shown


def test_should_show_times_beyond_the_calendar_as_numbers() -> None:
    assert shown_time(2**62) == str(2**62)


def test_should_give_a_host_seconds_to_accept_a_connection_and_a_minute_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    socket = SimpleNamespace(settimeout=limits.append, getpeername=lambda: ("127.0.0.1", 1))

    def opened(host: str, port: int, tls: Any, timeout: float) -> Any:
        limits.append(timeout)
        return SimpleNamespace(connect=lambda: None, sock=socket, request=nobody, close=lambda: None)

    def nobody(*_: Any, **__: Any) -> None:
        raise ConnectionError("nobody is there")

    monkeypatch.setattr(remote_tables, "peer_connection", opened)
    ended = CliRunner().invoke(app, ["top", "--server", "127.0.0.1:1"])
    assert (ended.exit_code, "nobody is there" in ended.stderr) == (1, True)
    assert limits == [5.0, 60.0]
