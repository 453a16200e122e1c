"""Nothing waits for ever: whatever waits for brokers, threads, jobs or other processes says for how long at most."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent
FOLDERS = ("kafka", "spark", "client")

# Calls that wait: which argument tells for how long, counted from 0, or by which names.
_NAMES = frozenset({"timeout", "timeout_ms", "request_timeout"})
WAITS: Mapping[str, int] = {
    "result": 0,
    "join": 0,
    "wait": 0,
    "wait_for": 1,
    "get": 0,
    "acquire": 0,
    "communicate": 1,
    "flush": 0,
    "poll": 0,
    "consume": 1,
    "list_topics": 1,
    "init_transactions": 0,
    "send_offsets_to_transaction": 2,
    "commit_transaction": 0,
    "abort_transaction": 0,
    "maybe_leave_group": 1,
    "fetch_committed_offsets": 1,
    "close": 0,
    "run": 1,
    "create_connection": 1,
    "urlopen": 2,
    "HTTPConnection": 2,
    "HTTPSConnection": 2,
}
OF_TRANSACTIONS = frozenset(name for name in WAITS if "_transaction" in name)
# Of clients of brokers: closing one waits as well, and takes no limit. `close_within` has one.
CLIENTS = ("_producer", "consumer", "_client")

# Where it is known that nothing waits, or that something else ends it: the function, what it calls, and why.
ALLOWED = {
    ("kafka/guard.py", "self._process.poll()"): "looks whether a process has ended, and does not wait",
    ("kafka/security.py", "file.flush()"): "a file",
    ("client/process_end.py", "sys.stdout.flush()"): "standard output, as at every end of Python",
    ("kafka/dead_letter_topics.py", "producer.flush()"): "a `ThreadProducer`'s, which has a limit",
    ("spark/queries/channel.py", "select.poll()"): "makes what waits, with a limit",
    ("spark/internals.py", "process.poll()"): "looks whether a process has ended, and does not wait",
    (
        "spark/internals.py",
        "java_rdd.collectAsync().get()",
    ): "a job of a thread takes as long as its turn; `Thread.cancel` ends it",
    ("spark/internals.py", "found.get()"): "Scala's Option",
    ("spark/worker/worker_process.py", "TaskContext.get()"): "the context of this task",
    ("spark/worker/residency.py", "TaskContext.get()"): "the context of this task",
    ("client/web/events.py", "gone.wait()"): "ends with the viewer, and is cancelled with its stream",
    ("client/kafka_streams.py", "self._thread.join()"): "on a thread of its own that `close` waits for as long as it was told to",
}


# They are being rewritten.
class Found(NamedTuple):
    """A place that may wait for ever."""

    line: int
    code: str


def unlimited(source: str, of_brokers: bool = False) -> Iterator[Found]:
    """The calls of a module that wait without a limit, and the methods of that kind that it hands to others without one."""
    tree = ast.parse(source)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    handed: dict[int, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for index, argument in enumerate(node.args):
                if isinstance(argument, ast.Attribute) and argument.attr in WAITS:
                    handed[id(argument)] = _has_limit(argument.attr, node.args[index + 1 :], ())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if isinstance(node.func, ast.Name) and name in ("wait", "get", "join", "result", "flush", "poll"):
                limited = name != "wait" or _has_limit("wait_for", node.args, node.keywords)  # concurrent.futures.wait
            elif name == "close" and of_brokers:
                limited = not _is_client(node.func) or _has_limit(name, node.args, node.keywords)
            elif name in ("close", "run"):
                limited = ast.unparse(node.func) != "subprocess.run" or _has_limit(name, node.args, node.keywords)
            else:
                limited = name not in WAITS or _is_text(node.func) or _has_limit(name, node.args, node.keywords)
            if not limited:
                yield Found(node.lineno, ast.unparse(node))
        elif (
            isinstance(node, ast.Attribute) and node.attr in OF_TRANSACTIONS and not (id(node) in called or handed.get(id(node)))
        ):
            yield Found(node.lineno, ast.unparse(node))


def _has_limit(name: str, arguments: list[ast.expr], keywords: list[ast.keyword] | tuple[()]) -> bool:
    given = [*arguments[WAITS[name] : WAITS[name] + 1], *(keyword.value for keyword in keywords if keyword.arg in _NAMES)]
    if any(keyword.arg == "blocking" and ast.unparse(keyword.value) == "False" for keyword in keywords):
        return True
    if any(isinstance(argument, ast.Starred) for argument in arguments):
        return True  # what is in it cannot be seen here
    return bool(given) and not any(ast.unparse(limit) in ("None", "-1") for limit in given)


def _is_text(function: ast.expr) -> bool:
    """`", ".join(…)`, and `os.path.join(…)`."""
    value = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(value, (ast.Constant, ast.JoinedStr)) or (value is not None and ast.unparse(value) == "os.path")


def _is_client(function: ast.expr) -> bool:
    value = function.value if isinstance(function, ast.Attribute) else None
    return value is not None and ast.unparse(value).endswith(CLIENTS)


def found_in_source() -> dict[tuple[str, str], int]:
    found = {}
    for folder in FOLDERS:
        for path in sorted((SOURCE / folder).rglob("*.py")):
            name = path.relative_to(SOURCE).as_posix()
            found |= {(name, place.code): place.line for place in unlimited(path.read_text(), folder == "kafka")}
    return found


def test_should_wait_for_nothing_without_a_limit() -> None:
    found = found_in_source()
    missing = [f"{name}:{line}: {code}" for (name, code), line in found.items() if (name, code) not in ALLOWED]
    assert not missing, "give each a limit, and an error that tells what was being done:\n" + "\n".join(missing)


def test_should_allow_only_what_is_there() -> None:
    assert set(ALLOWED) - set(found_in_source()) == set()


@pytest.mark.parametrize(
    "code",
    [
        "future.result()",
        "future.result(None)",
        "thread.join()",
        "event.wait()",
        "condition.wait_for(done)",
        "wait(waiting)",
        "queue.get()",
        "producer.flush()",
        "producer.flush(-1)",
        "consumer.poll()",
        "consumer.consume(10)",
        "client.list_topics()",
        "producer.init_transactions()",
        "self._call('opening', self._producer.init_transactions)",
        "commit = self._producer.commit_transaction",
        "producer.send_offsets_to_transaction(offsets, group)",
        "socket.create_connection(address)",
        "subprocess.run(command, check=True)",
        "self._producer.close()",
        "reader.consumer.close()",
    ],
)
def test_should_notice_what_has_none(code: str) -> None:
    assert [place.line for place in unlimited(code, of_brokers=True)] == [1]


@pytest.mark.parametrize(
    "code",
    [
        "future.result(5)",
        "future.result(timeout=left)",
        "', '.join(names)",
        "os.path.join(a, b)",
        "wait(waiting, 1.0)",
        "condition.wait_for(done, 3)",
        "mapping.get(key)",
        "consumer.consume(10, 0.05)",
        "client.list_topics(timeout=1.5)",
        "self._call('opening', self._producer.init_transactions, 60.0)",
        "call_within(15, producer.send_offsets_to_transaction, offsets, group, 10)",
        "close_within('the producer', self._producer.close)",
        "server.close()",
        "consumer.close(autocommit=False, timeout_ms=5_000)",
        "lock.acquire(blocking=False)",
        "subprocess.run(command, timeout=60)",
    ],
)
def test_should_let_pass_what_has_one(code: str) -> None:
    assert not list(unlimited(code, of_brokers=True))
