"""The summary of an application in a notebook: state, threads, lag, rates, a link to the console."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from penstock.client.notebook import link
from penstock.client.scheduling.bounded_run import BoundedProgress
from penstock.html import paragraph, table
from penstock.spark.messages import RestoreProgress


@dataclass(frozen=True)
class ThreadRow:
    """A stream thread with its state, its tasks and their lag (None while unknown)."""

    name: str
    state: str
    tasks: Sequence[str]
    lag: int | None


@dataclass(frozen=True)
class Summary:
    """The content of a notebook's summary."""

    application_id: str
    state: str
    step: str | None = None
    """What a starting application waits for."""
    threads: Sequence[ThreadRow] = ()
    lag: int | None = None
    records_per_second: float = 0.0
    produced_per_second: float = 0.0
    restoring: Sequence[RestoreProgress] = ()
    url: str | None = None
    failure: BaseException | None = None
    backfill: BoundedProgress | None = None

    def html(self) -> str:
        parts = [f"<p style='margin:4px 0'><b>{escape(self.application_id)}</b> {escape(self.state)}{self._link()}</p>"]
        if self.failure is not None:
            parts.append(paragraph(f"It failed: {type(self.failure).__name__}: {self.failure}"))
        if self.step is not None:
            parts.append(paragraph(f"It waits for {self.step}."))
        if self.restoring:
            parts.append(self._restoring())
        if self.backfill is not None:
            parts.append(self._backfilling(self.backfill))
        if self.lag is not None:
            parts.append(
                paragraph(
                    f"{self.records_per_second:,.0f} records/s in, {self.produced_per_second:,.0f} records/s out, "
                    f"lag {self.lag:,} records"
                )
            )
        if self.threads:
            rows = [(t.name, t.state, " ".join(t.tasks) or "none", "not known" if t.lag is None else t.lag) for t in self.threads]
            parts.append(table(["thread", "state", "tasks", "lag"], rows))
        return "<div>" + "".join(parts) + "</div>"

    def _link(self) -> str:
        return "" if self.url is None else f" · {link(self.url, 'console')}"

    def _backfilling(self, progress: BoundedProgress) -> str:
        text = f"Backfill: {progress.done:,} of {progress.total:,} records ({progress.share:.0%}), {progress}."
        return f"<progress max='{max(1, progress.total)}' value='{progress.done}'></progress>{paragraph(text)}"

    def _restoring(self) -> str:
        total = sum(max(0, progress.end - progress.start) for progress in self.restoring)
        done = sum(max(0, progress.position - progress.start) for progress in self.restoring)
        count = len(self.restoring)
        text = f"Restoring {count} store partition{'s' if count != 1 else ''}: {done:,} of {total:,} records."
        return f"<progress max='{max(1, total)}' value='{done}'></progress>{paragraph(text)}"
