"""Clients of kafka-python that reach nobody; there is no broker, and none is played."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaTimeoutError

from penstock.kafka.member_clients import open_member_client
from tests.harness.kafka import wait_until


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [KafkaConsumer, KafkaAdminClient])
def test_should_leave_no_thread_behind_where_no_broker_answers(kind: Any) -> None:
    with pytest.raises(KafkaTimeoutError, match="Unable to bootstrap"):
        open_member_client(kind, bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=100, client_id="nobody")
    wait_until(lambda: not [thread for thread in threading.enumerate() if "nobody" in thread.name], "a thread that has ended")
    gc.collect()  # sockets that were refused are left to it by the client
