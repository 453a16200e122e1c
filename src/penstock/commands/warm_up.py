"""`penstock warm-up`: have Spark start in half of the time from now on."""

from __future__ import annotations

from penstock.commands.common import say, told_in_one_sentence
from penstock.commands.progress import busy


def warm_up() -> None:
    """Make an archive of Spark's classes, so that applications start sooner.

    Once for each version of Spark and Java, as the user that applications run as, or when an image is built: about half a minute,
    and 80 MB in the cache folder (~/.cache/penstock). Sessions that penstock makes use it by themselves.
    """
    from penstock.spark.driver.class_archive import make_archive

    with told_in_one_sentence():
        with busy("Spark starts once, and its JVM writes an archive of its classes"):
            file = make_archive()
        say(f"wrote {file} ({file.stat().st_size / 1e6:.0f} MB): applications start sooner from now on")
