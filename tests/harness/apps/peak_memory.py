"""Read a partition like a stream thread, and print the growth of the memory in bytes: SERVERS TOPIC RECORDS SETTINGS."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock import StreamsConfig
from penstock.ids import TopicPartition
from penstock.kafka.clients import consumer_config
from penstock.kafka.follow import Follower


def peak() -> int:
    """The most memory that the process has had."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def main() -> None:
    servers, topic, records, settings = sys.argv[1:]
    config = StreamsConfig({"application.id": "peak", "bootstrap.servers": servers, **json.loads(settings)})
    follower = Follower(consumer_config(config, "peak"))
    follower.follow({TopicPartition(topic, 0): 0})
    before, left = peak(), int(records)
    while left:
        follower.wait(0.1, 1_000)
        left -= follower.take(1_000).records
    print(peak() - before)
    follower.close()


if __name__ == "__main__":
    main()
