"""Locates store partitions for Spark's tasks at read time, because partitions can move after a table was made.

A thread in the driver answers tasks that know the application's key (`spark/queries/channel.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark import SparkContext

from penstock.errors import InvalidStateStoreError, PenstockError, StateStoreNotAvailableError, StreamsRebalancingError
from penstock.ids import TaskId
from penstock.scratch import ScratchFolder
from penstock.spark.hosts import is_local
from penstock.spark.messages import Application
from penstock.spark.queries.channel import GONE, Address, Channel, answer_of, connect, send_error
from penstock.spark.queries.listening import Listening
from penstock.wire import Codec

_PATIENCE = 30.0
_REQUEST_SECONDS = 10.0
_ANSWER_SECONDS = 15.0


@dataclass(frozen=True)
class StoreSource:
    """The location of a store's partition: files, a stream thread's address, or another instance's query server.

    `folder` is relative to the application's folder. A Spark task on another host than the files asks the stream thread.
    """

    task_id: TaskId
    folder: str
    address: Address | None = None
    executor: str | None = None
    server: str | None = None
    site: str = ""


Find = Callable[[str, TaskId], StoreSource]

_CODEC = Codec(TaskId, StoreSource)


class StoreLocator:
    """Answers requests with `find(store, task)` at `address`."""

    def __init__(self, spark: SparkContext, application: Application, find: Find) -> None:
        self._find = find
        self._scratch = ScratchFolder("penstock-g-") if is_local(spark) else None
        host = "" if self._scratch is not None else str(spark.getConf().get("spark.driver.host"))
        identity = None if self._scratch is not None else application.identity
        try:
            self._listening = Listening(
                "penstock-guide",
                application.query_key,
                _CODEC,
                self._answer,
                folder=None if self._scratch is None else self._scratch.path,
                host="" if self._scratch is not None else str(spark.getConf().get("spark.driver.bindAddress", host)),
                identity=identity,
            )
        except BaseException:
            self._remove_folder()
            raise
        address = self._listening.address
        self.address: Address = address if isinstance(address, str) else (host, address)

    def close(self) -> None:
        self._listening.close()
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._scratch is not None:
            self._scratch.close()

    def _answer(self, channel: Channel) -> None:
        request = channel.receive(_REQUEST_SECONDS)
        try:
            name, task_id = request
            channel.send("value", self._find(str(name), task_id))
        except PenstockError as exc:
            send_error(channel, exc)
        except Exception as exc:  # noqa: BLE001 - sent to the caller
            send_error(channel, InvalidStateStoreError(f"locating the store failed: {exc!r}"))


def ask(address: Address, application: Application, store_name: str, task_id: TaskId) -> StoreSource:
    """Return the current location of a partition. Waits while it opens or moves."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return _ask(address, application, store_name, task_id)
        except (StreamsRebalancingError, StateStoreNotAvailableError):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _ask(address: Address, application: Application, store_name: str, task_id: TaskId) -> StoreSource:
    try:
        with connect(address, application.query_key, _CODEC, application.identity) as channel:
            channel.send(store_name, task_id)
            found = answer_of(channel.receive(_ANSWER_SECONDS))[-1]
    except GONE as exc:
        raise InvalidStateStoreError(
            f"The application of store {store_name} does not answer ({exc}). A table can be read only while its application runs"
        ) from exc
    if not isinstance(found, StoreSource):
        raise InvalidStateStoreError(f"The driver sent no location for partition {task_id.partition} of store {store_name}")
    return found
