"""Revenue of each product and day: a year of sales from Parquet files first, then what is sold now.

Topics: `sales` (product -> cents) -> `revenue` ("product day" -> cents).
"""

import os
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from penstock import Consumed, Grouped, Materialized, Produced, Serdes, SparkHistory, StreamsBuilder, TimeWindows, Topology

FOLDER = os.environ.get("SALES_HISTORY", str(Path(tempfile.gettempdir()) / f"penstock-sales-{os.getuid()}"))
PRODUCTS = ["boat", "engine", "oar", "rope", "sail"]
HOURS = 365 * 24


def year_of_sales(spark: Any) -> Any:
    """The table; the first call generates it. In an application of yours this is `spark.table("lake.sales")`, say."""
    if not (Path(FOLDER) / "_SUCCESS").exists():
        products = ", ".join(f"'{product}'" for product in PRODUCTS)
        sales = spark.range(HOURS * len(PRODUCTS)).selectExpr(
            f"element_at(array({products}), int(id % {len(PRODUCTS)}) + 1) AS product",
            "100 + id % 900 AS cents",
            f"timestamp_seconds(1735689600 + 3600 * int(id / {len(PRODUCTS)})) AS sold_at",  # from 2025-01-01 on
        )
        sales.write.mode("overwrite").parquet(FOLDER)
    return spark.read.parquet(FOLDER)


def day(start: int) -> str:
    return datetime.fromtimestamp(start / 1000, timezone.utc).date().isoformat()


def topology() -> Topology:
    builder = StreamsBuilder()
    text, long = Serdes.string(), Serdes.long()
    history = SparkHistory(year_of_sales, key="product", value="cents", timestamp="sold_at")
    revenue = (
        builder.stream("sales", Consumed(text, long, history=history))
        .group_by_key(Grouped("products", text, long))
        .windowed_by(TimeWindows(timedelta(days=1), grace=timedelta(hours=1)))
        .reduce(lambda total, cents: total + cents, Materialized("revenue-by-day", text, long))
    )
    revenue.to_stream().map(lambda key, cents: (f"{key.key} {day(key.window.start)}", cents)).to("revenue", Produced(text, long))
    return builder.build()
