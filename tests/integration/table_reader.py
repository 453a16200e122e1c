"""Another process with a Spark session of its own: reads a table of an application whose address it is given, prints JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(server: str, token_file: str) -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    # Nothing is registered: Spark finds the format by itself.
    read = spark.read.format("penstock").option("application.server", server).option("application.server.token.file", token_file)
    counts = {row.key: row.value for row in read.option("store", "counts").load().collect()}
    spark.sql(
        "create temporary view windows using penstock options ("
        f"'application.server' '{server}', 'application.server.token.file' '{token_file}', store 'windows')"
    )
    windows = [list(row) for row in spark.sql("select key, value from windows where value > 1").collect()]
    spark.stop()
    print("found", json.dumps({"counts": counts, "windows": windows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
