"""Fetch jars from Maven Central with Spark's own resolver: no Maven, no download code of our own.

Runs as a program of its own (`python -m penstock.spark.driver.resolver COORDINATES FOLDER`), so that the JVM it needs for
a few seconds does not become the JVM of the caller's Spark session. Prints one jar path a line.
"""

from __future__ import annotations

import sys

from py4j.protocol import Py4JJavaError

from penstock.spark.internals import end_gateway, resolve_jars, start_gateway

_END_SECONDS = 30.0


def resolve(coordinates: str, folder: str) -> list[str]:
    """The jars of Maven `coordinates` and all they need beyond Spark's own jars, downloaded below `folder`."""
    gateway = start_gateway()
    try:
        return resolve_jars(gateway, coordinates, folder)
    finally:
        end_gateway(gateway, _END_SECONDS)


def main() -> int:
    """Resolve and print; exit 1 with the resolver's reason when something is missing."""
    coordinates, folder = sys.argv[1:3]
    try:
        jars = resolve(coordinates, folder)
    except Py4JJavaError as error:
        print(error.java_exception.getMessage(), file=sys.stderr)
        return 1
    if not jars:
        print(f"nothing found for {coordinates}", file=sys.stderr)
        return 1
    print("\n".join(jars))
    return 0


if __name__ == "__main__":
    sys.exit(main())
