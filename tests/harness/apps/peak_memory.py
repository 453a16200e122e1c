"""Read a partition, and print the growth of the memory in bytes: WAY SERVERS TOPIC RECORDS SETTINGS.

WAY is `follow`, as a stream thread reads its input, or `restore`, as it reads a changelog with many records.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from penstock import StreamsConfig
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.changelog_reader import WORTH_A_CONNECTION, ChangelogReader
from penstock.kafka.clients import admin_config, consumer_config, log_reader_config, restore_consumer_config
from penstock.kafka.fetch import FetchRange, RangeFetcher
from penstock.kafka.follow import Follower
from penstock.kafka.log_reader import LogReader
from penstock.kafka.log_transport import log_transport


def peak() -> int:
    """The most memory that the process has had."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def follow(config: StreamsConfig, topic: str, records: int, begun: Callable[[], None]) -> None:
    follower, left = Follower(consumer_config(config, "peak")), records
    follower.follow({TopicPartition(topic, 0): 0})
    begun()
    while left:
        follower.wait(0.1, 1_000)
        left -= follower.take(1_000).records
    follower.close()


def restore(config: StreamsConfig, topic: str, records: int, begun: Callable[[], None]) -> None:
    admin = Admin(admin_config(config, "peak"))
    transport = log_transport(log_reader_config(config, "peak"), admin.leader, True)
    fetcher = RangeFetcher(restore_consumer_config(config, "peak"))
    reader, position, left = ChangelogReader(fetcher, lambda: LogReader(transport, True)), 0, records
    begun()
    reader.expect(FetchRange(topic, 0, 0, records), headers=False, left=WORTH_A_CONNECTION)
    while left:
        found, position = reader.fetch(FetchRange(topic, 0, position, records), records, headers=False)
        left -= len(found)
    assert fetcher._short is fetcher._long is None, "all was read from the log"
    reader.close()


def main() -> None:
    way, servers, topic, records, settings = sys.argv[1:]
    config = StreamsConfig({"application.id": "peak", "bootstrap.servers": servers, **json.loads(settings)})
    before = [0]

    def begun() -> None:
        before[0] = peak()

    {"follow": follow, "restore": restore}[way](config, topic, int(records), begun)
    print(peak() - before[0])


if __name__ == "__main__":
    main()
