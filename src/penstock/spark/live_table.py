"""DataFrames over live state into which Spark pushes filters and columns.

Spark's own way for Python data sources (`DataSourceReader.pushFilters`, since 4.1) keeps what was pushed with the table, not with
the scan: `t.where("key = 'a'")` followed by `t.count()` counts one row, and a union of two filters of one table reads one of them
twice. So the table is one of our own, a few lines of Java that Spark's own compiler (Janino) compiles in the driver: each scan
gets a Python data source of its own, with what it needs as options. Executors run Spark's classes only. Where the driver's JVM
cannot be reached, or is not as expected, tables are read whole and Spark filters.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.spark.source import NAME, register

_JAVA = Path(__file__).with_name("LiveTable.java")
_CLASS = "penstock.LiveTable"

_log = logging.getLogger(__name__)

# The compiled class with the JVM it belongs to: one JVM at a time.
_compiled: tuple[Any, Any] = (None, None)


def live_table(spark: SparkSession, store: str, options: Mapping[str, str]) -> DataFrame:
    """The state of a store of an application that runs anywhere; keys, ranges of keys and columns are read where they are.

    `options` are those of `spark.read.format("penstock")`:

        live_table(spark, "counts", {"application.server": "shop-1:8080"}).where("key = 'alice'").show()
    """
    register(spark)
    wanted = {**options, "store": store}
    loaded = spark.read.format(NAME).options(**wanted).load()
    return live_dataframe(spark, NAME, ", ".join(f"{name} {kind}" for name, kind in loaded.dtypes), wanted)


def live_dataframe(spark: SparkSession, source: str, schema: str, options: Mapping[str, str]) -> DataFrame:
    """A DataFrame over a registered source; without pushed filters where Spark's JVM is not as expected."""
    try:
        return _pushing(spark, source, schema, options)
    except Exception as exc:  # noqa: BLE001 - py4j has errors of its own, and so have other versions of Spark
        _log.info("filters are not pushed into tables of stores: %s", exc)
        return spark.read.format(source).schema(schema).options(**options).load()


def _pushing(spark: SparkSession, source: str, schema: str, options: Mapping[str, str]) -> DataFrame:
    context: Any = spark.sparkContext
    jvm = context._jvm
    told = jvm.java.util.HashMap()
    for name, value in options.items():
        told.put(name, value)
    arguments = context._gateway.new_array(jvm.java.lang.Object, 3)
    arguments[0], arguments[1], arguments[2] = source, jvm.org.apache.spark.sql.types.StructType.fromDDL(schema), told
    table = _class_in(context).getConstructors()[0].newInstance(arguments)
    none = jvm.scala.Option.empty()
    relation = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation.create(table, none, none)
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, relation), spark)


def _class_in(context: Any) -> Any:
    global _compiled
    gateway, found = _compiled
    if gateway is not context._gateway:
        jvm = context._jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(_JAVA.read_text(encoding="utf-8"))
        found = compiler.getClassLoader().loadClass(_CLASS)
        _compiled = context._gateway, found
    return found
