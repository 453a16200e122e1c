"""`python -m bench.elastic`: what becomes of the output while instances and executors come, go and die, beside Kafka Streams.

Writes data and a picture for each scenario, and a page with the table of gaps, into `bench/results`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench import environment
from bench.elastic.instances import kafka_streams, penstock
from bench.elastic.report import keep, write_page
from bench.elastic.scenarios import SCENARIOS, play
from penstock.kafka.dev_broker import DevBroker


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.elastic", description=__doc__)
    parser.add_argument("--rate", type=int, default=1_000, help="records a second")
    parser.add_argument("--ahead", type=int, default=200_000, help="records that are written at once, before anything is done")
    parser.add_argument("--pause", type=float, default=10.0, help="seconds between two events")
    parser.add_argument("--only", choices=list(SCENARIOS), action="append")
    parser.add_argument("--penstock-only", action="store_true")
    parser.add_argument("--logs", type=Path, help="a folder for what the instances say")
    parser.add_argument("--trial", action="store_true", help="keep nothing of what is measured")
    parser.add_argument("--page", action="store_true", help="write the page and the pictures anew, and measure nothing")
    arguments = parser.parse_args()
    made = environment.describe()
    for name in () if arguments.page else arguments.only or SCENARIOS:
        libraries = [penstock()] if SCENARIOS[name].only_penstock or arguments.penstock_only else [penstock(), kafka_streams()]
        curves = []
        for library in libraries:
            with DevBroker() as broker:
                load = (arguments.rate, arguments.ahead, arguments.pause)
                curves.append(play(library, name, broker.bootstrap_servers, *load, arguments.logs))
            start = curves[-1].first_event
            print(
                f"{name}: {library.name}: longest gap {curves[-1].longest_gap(start):.1f} s, silence "
                f"{curves[-1].silence(start):.1f} s, {curves[-1].replayed(start):,} replayed; exact: {curves[-1].exact}; "
                f"{'; '.join(curves[-1].notes)}",
                flush=True,
            )
            for gaps in curves[-1].by_event() if curves[-1].places else ():
                print(f"  {gaps}", flush=True)
        if not arguments.trial:
            keep(name, curves, made, {"rate": arguments.rate, "ahead": arguments.ahead})
    if not arguments.trial:
        print(write_page())


if __name__ == "__main__":
    main()
