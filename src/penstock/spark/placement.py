"""Put a partition on an executor of our choice: the lab's way, tried before and after a shuffle."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.serializers import PickleSerializer


def executors(spark: SparkContext) -> list[str]:
    """The executors there are now, as Spark writes them in preferred locations; empty in local mode."""
    if spark.master.startswith("local"):
        return []
    status = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().master().getMemoryStatus().keys().toList()
    blocks = [status.apply(i) for i in range(status.size())]
    return sorted(f"executor_{block.host()}_{block.executorId()}" for block in blocks if not block.isDriver())


def located(spark: SparkContext, places: Sequence[str | None]) -> RDD[int]:
    """One row a partition, its index, each partition preferring its place; None leaves it to Spark."""
    if all(place is None for place in places):
        return spark.parallelize(range(len(places)), len(places))
    jvm: Any = spark._jvm
    convert = jvm.scala.jdk.CollectionConverters
    pairs = jvm.java.util.ArrayList()
    for index, place in enumerate(places):
        wanted = jvm.java.util.ArrayList()
        if place is not None:
            wanted.add(place)
        pairs.add(jvm.scala.Tuple2(bytearray(pickle.dumps(index)), convert.ListHasAsScala(wanted).asScala().toSeq()))
    bytes_tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    rdd = spark._jsc.sc().makeRDD(convert.ListHasAsScala(pairs).asScala().toSeq(), bytes_tag)
    return RDD(rdd.toJavaRDD(), spark, PickleSerializer())
