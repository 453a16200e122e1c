"""DataFrames over live state with pushed filters and columns.

Spark's filter pushdown for Python data sources (`DataSourceReader.pushFilters`, since 4.1) keeps the filters with the table
instead of the scan. `t.where("key = 'a'")` followed by `t.count()` counts one row, and a union of two filters of one table
reads one of them twice. The table is therefore a small Java class that Spark's own compiler (Janino) compiles in the driver.
It gives each scan its own Python data source with its own options. Executors run Spark's classes only. If the class cannot be
compiled, tables are read whole and Spark filters.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock.spark.internals import compiled_class, dataframe_over_table
from penstock.spark.queries.data_source import NAME, register

_JAVA = Path(__file__).with_name("LiveTable.java")
_CLASS = "penstock.LiveTable"

_log = logging.getLogger(__name__)


def live_table(spark: SparkSession, store: str, options: Mapping[str, str]) -> DataFrame:
    """Return a DataFrame over a store of a running application. Keys, key ranges and columns are pushed down to the store.

    `options` are those of `spark.read.format("penstock")`:

        live_table(spark, "counts", {"application.server": "shop-1:8080"}).where("key = 'alice'").show()
    """
    register(spark)
    wanted = {**options, "store": store}
    loaded = spark.read.format(NAME).options(**wanted).load()
    return live_dataframe(spark, NAME, ", ".join(f"{name} {kind}" for name, kind in loaded.dtypes), wanted)


def live_dataframe(spark: SparkSession, source: str, schema: str, options: Mapping[str, str]) -> DataFrame:
    """Return a DataFrame over a registered source, without pushed filters if the JVM is not reachable."""
    try:
        return _pushing(spark, source, schema, options)
    except Exception as exc:  # noqa: BLE001 - py4j and other versions of Spark raise their own errors
        _log.info("Filters are not pushed into tables of stores: %s", exc)
        return spark.read.format(source).schema(schema).options(**options).load()


def _pushing(spark: SparkSession, source: str, schema: str, options: Mapping[str, str]) -> DataFrame:
    java_class = compiled_class(spark.sparkContext, _CLASS, _JAVA.read_text(encoding="utf-8"))
    return dataframe_over_table(spark, java_class, source, schema, options)
