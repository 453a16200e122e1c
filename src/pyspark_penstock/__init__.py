"""Where Spark looks for data sources by itself: every session of a Python that has penstock knows the format `penstock`.

spark.read.format("penstock").option("application.server", "host:port").option("store", "counts").load()
"""

from penstock.spark.queries.data_source import PenstockDataSource as DefaultSource
from penstock.spark.queries.data_source import register
from penstock.spark.queries.live_table import live_table

__all__ = ["DefaultSource", "live_table", "register"]
