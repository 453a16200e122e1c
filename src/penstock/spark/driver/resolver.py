"""Fetch jars from Maven Central with Spark's own resolver: no Maven, no download code of our own.

Runs as a program of its own (`python -m penstock.spark.driver.resolver COORDINATES FOLDER`), so that the JVM it needs for
a few seconds does not become the JVM of the caller's Spark session. Prints one jar path a line.
"""

from __future__ import annotations

import sys

from py4j.protocol import Py4JJavaError

from penstock.spark.internals import end_gateway, resolve_jars, start_gateway

_END_SECONDS = 30.0


def main() -> int:
    """Print the jars of Maven coordinates and of all they need beyond Spark's own; exit 1 with the reason if one is missing."""
    coordinates, folder = sys.argv[1:3]
    gateway = start_gateway()
    try:
        jars = resolve_jars(gateway, coordinates, folder)
    except Py4JJavaError as error:
        print(error.java_exception.getMessage(), file=sys.stderr)  # asked of the JVM, so before its end
        return 1
    finally:
        end_gateway(gateway, _END_SECONDS)
    if not jars:
        print(f"nothing found for {coordinates}", file=sys.stderr)
        return 1
    print("\n".join(jars))
    return 0


if __name__ == "__main__":
    sys.exit(main())
