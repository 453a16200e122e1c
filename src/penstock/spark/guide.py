"""Tells Spark's tasks where a partition of a store is when they read it: a table outlives the placement it was made under.

A thread in the driver answers whoever knows the application's key.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from penstock.errors import (
    InvalidStateStoreError,
    PenstockError,
    StateStoreNotAvailableError,
    StreamsRebalancingError,
)
from penstock.ids import TaskId
from penstock.spark.placement import is_local
from penstock.spark.query_client import Address, connect
from penstock.spark.query_listener import is_known, listen

Find = Callable[[str, TaskId], Any]

_PATIENCE = 30.0
_ANSWER_SECONDS = 15.0


class Guide:
    """Answers with what `find(store, task)` says; `address` is where, for `ask`."""

    def __init__(self, spark: SparkContext, key: bytes, find: Find) -> None:
        self._key = key
        self._find = find
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-g-"))
        local = is_local(spark)
        self._socket, address = listen(self._folder, local)
        self.address: Address = address if isinstance(address, str) else (str(spark.getConf().get("spark.driver.host")), address)
        threading.Thread(target=self._accept, name="penstock-guide", daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(accepted,), name="penstock-guide", daemon=True).start()

    def _answer(self, accepted: socket.socket) -> None:
        connection: Connection[Any, Any] = Connection(accepted.detach())
        with contextlib.suppress(OSError, EOFError), contextlib.closing(connection):
            if is_known(connection, self._key) and connection.poll(_ANSWER_SECONDS):
                try:
                    connection.send(self._find(*connection.recv()))
                except PenstockError as exc:
                    connection.send(exc)
                except Exception as exc:  # noqa: BLE001 - told to who asks
                    connection.send(InvalidStateStoreError(f"where the store is cannot be told: {exc!r}"))


def ask(address: Address, key: bytes, store_name: str, task_id: TaskId) -> Any:
    """Where a partition is now; waits while it is being opened or moves."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        found = _ask(address, key, store_name, task_id)
        if not isinstance(found, BaseException):
            return found
        if not isinstance(found, (StreamsRebalancingError, StateStoreNotAvailableError)) or time.monotonic() > deadline:
            raise found
        time.sleep(0.1)


def _ask(address: Address, key: bytes, store_name: str, task_id: TaskId) -> Any:
    try:
        with contextlib.closing(connect(address, key)) as connection:
            connection.send((store_name, task_id))
            if connection.poll(_ANSWER_SECONDS):
                return connection.recv()
    except (OSError, EOFError) as exc:
        raise InvalidStateStoreError(
            f"the application whose store {store_name} is read does not answer ({exc}): a table can be read while it runs"
        ) from exc
    return StateStoreNotAvailableError(f"the driver does not tell where partition {task_id.partition} of store {store_name} is")
