"""`make bench`: run the jobs, interleaved on one broker, and write the table."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from bench import wordcount
from penstock.kafka.dev_broker import DevBroker

_RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description="penstock beside Kafka Streams (Java)")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    rows = [
        "| guarantee | round | Kafka Streams (s) | penstock (s) | ratio | with start-up (s) | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    with DevBroker() as broker:
        expected = wordcount.feed(broker.bootstrap_servers, "lines", arguments.lines)
        for guarantee in ("exactly_once_v2", "at_least_once"):
            for number in range(1, arguments.rounds + 1):
                name = f"{guarantee.replace('_', '-')}-{number}-{time.time_ns()}"
                java = wordcount.run_java(broker.bootstrap_servers, "lines", guarantee, f"java-{name}", expected)
                ours = wordcount.run_penstock(broker.bootstrap_servers, "lines", guarantee, f"penstock-{name}", expected)
                rows.append(
                    f"| {guarantee} | {number} | {java[0]:.1f} | {ours[0]:.1f} | {java[0] / ours[0]:.2f} "
                    f"| {java[1]:.1f} / {ours[1]:.1f} | {java[1] / ours[1]:.2f} |"
                )
                print(rows[-1], flush=True)
    _RESULTS.mkdir(exist_ok=True)
    title = f"# WordCount, {arguments.lines:,} lines of {wordcount.WORDS} words, {wordcount.PARTITIONS} partitions\n\n"
    (_RESULTS / "wordcount.md").write_text(title + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
