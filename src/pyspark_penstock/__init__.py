"""Where Spark looks for data sources by itself: every session of a Python that has penstock knows the format `penstock`.

spark.read.format("penstock").option("application.server", "host:port").option("store", "counts").load()
"""

from penstock.spark.live_table import live_table
from penstock.spark.source import PenstockDataSource as DefaultSource
from penstock.spark.source import register

__all__ = ["DefaultSource", "live_table", "register"]
