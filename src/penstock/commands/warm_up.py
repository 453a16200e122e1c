"""`penstock warm-up`: make an archive that halves Spark's start time."""

from __future__ import annotations

from penstock.commands.common import report_errors, say
from penstock.commands.progress import busy


def warm_up() -> None:
    """Make an archive of Spark's classes, so that applications start faster.

    Run it once for each version of Spark and Java, as the user of the applications, or when an image is built. It takes about
    half a minute, and 80 MB in the cache folder (~/.cache/penstock). Sessions that penstock makes use the archive.
    """
    from penstock.spark.driver.class_archive import make_archive

    with report_errors():
        with busy("starting Spark, whose JVM writes an archive of its classes"):
            file = make_archive()
        say(f"wrote {file} ({file.stat().st_size / 1e6:.0f} MB): applications now start faster")
