"""The output of the demo: a live table on a terminal, otherwise a line every two seconds, and a summary."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table

if TYPE_CHECKING:
    from penstock.commands.demo_words import CountReader, Feeder

_TOP, _WIDTH = 10, 88
_LINE_EVERY = 2.0


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile of values, 0 for none.

    >>> percentile([5.0, 1.0, 3.0], 50), percentile([], 99)
    (3.0, 0.0)
    """
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class View:
    """Prints the progress of the demo."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._live: Live | None = None
        self._began = time.monotonic()
        self._last_line = 0.0
        self._last = (time.monotonic(), 0)
        self._rate = 0.0
        self._took = 0.0
        self._began_feeding = self._began
        self._page = ""

    def step(self, what: str) -> None:
        """Print the beginning of a step."""
        self._console.print(f"[dim]{time.monotonic() - self._began:5.1f} s[/dim]  {what}", soft_wrap=True)

    def page(self, url: str) -> None:
        """Print the console's address."""
        self._page = url
        self.step(f"console and queries: {url}")

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the live table while lines are written."""
        self._began_feeding = time.monotonic()
        self._last = (self._began_feeding, 0)
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, refresh_per_second=4) as self._live:
            yield

    def show(self, feeder: Feeder, reader: CountReader, last: bool = False) -> None:
        """Update the progress."""
        from penstock.commands.demo_words import WORDS_PER_LINE

        now = time.monotonic()
        counted = reader.words // WORDS_PER_LINE
        since, before = self._last
        if now - since >= 1.0 or last:
            self._rate = (counted - before) / max(now - since, 1e-3)
            self._last = (now, counted)
        self._took = now - self._began_feeding
        latencies = reader.recent_latencies()
        text = (
            f"{feeder.lines:,} lines fed, {counted:,} counted, {self._rate:,.0f} lines/s, "
            f"latency p50 {percentile(latencies, 50):.0f} ms, p99 {percentile(latencies, 99):.0f} ms"
        )
        if self._live is not None:
            self._live.update(_table(reader.counts, f"{text}\n{self._page}", min(_WIDTH, self._console.width)), refresh=last)
        elif now - self._last_line >= _LINE_EVERY and not last:
            self._last_line = now
            self._console.print(f"{now - self._began:5.1f} s  {text}", soft_wrap=True)

    def summary(self, feeder: Feeder, reader: CountReader) -> bool:
        """Print the summary. Returns True if every word was counted once."""
        from penstock.commands.demo_words import WORDS_PER_LINE

        top = ", ".join(f"{word} {count:,}" for word, count in _top(reader.counts)[:5])
        latencies = reader.all_latencies
        wrong = [word for word in feeder.fed | reader.counts if feeder.fed.get(word, 0) != reader.counts.get(word, 0)]
        self._console.print(f"top words: {top}", soft_wrap=True)
        self._console.print(
            f"{feeder.lines:,} lines ({feeder.words:,} words) in {self._took:.1f} s: "
            f"{reader.words / WORDS_PER_LINE / max(self._took, 1e-3):,.0f} lines/s; end-to-end latency "
            f"p50 {percentile(latencies, 50):.0f} ms, p99 {percentile(latencies, 99):.0f} ms; {reader.updates:,} updates read",
            soft_wrap=True,
        )
        if wrong or reader.backwards:
            shown = ", ".join(f"{w} fed {feeder.fed.get(w, 0)} counted {reader.counts.get(w, 0)}" for w in wrong[:5])
            detail = f"{len(wrong)} words differ ({shown})" if wrong else f"{reader.backwards} counts did not grow"
            self._console.print(f"[red]NOT exactly once: {detail}[/red]", soft_wrap=True)
            return False
        self._console.print("[green]exactly once: every word is counted, none twice[/green]", soft_wrap=True)
        return True


def _top(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.copy().items(), key=lambda entry: (-entry[1], entry[0]))[:_TOP]


def _table(counts: dict[str, int], caption: str, width: int) -> Table:
    table = Table(
        title="WordCount, exactly once, on Spark", caption=caption, title_justify="left", caption_justify="left", width=width
    )
    table.add_column("word")
    table.add_column("count", justify="right")
    table.add_column("", ratio=1)
    top = _top(counts)
    for word, count in top:
        table.add_row(word, f"{count:,}", f"[blue]{'█' * max(1, round(40 * count / top[0][1]))}[/blue]")
    return table
