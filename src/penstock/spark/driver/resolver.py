"""Fetch jars from Maven Central with Spark's own resolver, without Maven.

Runs as a separate program (`python -m penstock.spark.driver.resolver COORDINATES FOLDER`), so that its JVM does not become
the JVM of the caller's Spark session. Prints one jar path per line.
"""

from __future__ import annotations

import sys

from py4j.protocol import Py4JJavaError

from penstock.spark.internals import end_gateway, resolve_jars, start_gateway

_END_SECONDS = 30.0


def main() -> int:
    """Print the jars of Maven coordinates and their dependencies that Spark lacks. Returns 1 and prints the reason if one is
    missing.
    """
    coordinates, folder = sys.argv[1:3]
    gateway = start_gateway()
    try:
        jars = resolve_jars(gateway, coordinates, folder)
    except Py4JJavaError as error:
        print(error.java_exception.getMessage(), file=sys.stderr)  # the message comes from the JVM, so before its end
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
