"""The plot: one bar per headline row, how many times better than Kafka Streams; written by hand, since it is nothing but bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from bench.job import Row

_WIDTH, _LEFT, _RIGHT, _LINE, _TOP = 960, 450, 60, 26, 70
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 16px; font-weight: 600 } .small { font-size: 11px }
  .muted { fill: #59636e } .grid { stroke: #d1d9e0 } .one { stroke: #59636e } .good { fill: #1a7f37 } .bad { fill: #bc4c00 }
  .none { fill: #59636e } .goal { stroke: #0969da; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .muted { fill: #9198a1 } .grid { stroke: #3d444d } .one { stroke: #9198a1 } .good { fill: #3fb950 }
    .bad { fill: #f0883e } .none { fill: #9198a1 } .goal { stroke: #4493f8 }
  }
"""


def svg(title: str, rows: Sequence[tuple[str, Row]]) -> str:
    """A picture of the rows that have a ratio, on a logarithmic scale; readable on light and on dark."""
    bars = [(label, row, row.times_better) for label, row in rows if row.times_better]
    values = [v for _, row, better in bars for v in (better, row.goal_times_better) if v]
    low, high = _bounds(values)
    height = _TOP + _LINE * len(bars) + 30

    def x(value: float) -> float:
        share = (math.log2(max(value, low)) - math.log2(low)) / (math.log2(high) - math.log2(low))
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="10" y="24">{escape(title)}</text>',
        '<text class="small muted" x="10" y="44">more is better; the upright line at a bar is its goal</text>',
    ]
    value = low
    while value <= high:
        kind = "one" if value == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{_TOP - 8}" y2="{height - 26}"/>')
        parts.append(f'<text class="small muted" x="{x(value):.1f}" y="{height - 10}" text-anchor="middle">{value:g}</text>')
        value *= 2
    for number, (label, row, better) in enumerate(bars):
        assert better is not None
        y = _TOP + number * _LINE
        kind = {True: "good", False: "bad", None: "none"}[row.reached]
        start, end = sorted((x(1), x(better)))
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect class="{kind}" x="{start:.1f}" y="{y + 2}" width="{max(end - start, 1):.1f}" height="16" rx="2"/>')
        parts.append(f'<text class="small" x="{max(end, x(1)) + 6:.1f}" y="{y + 14}">{better:.2f}</text>')
        if goal := row.goal_times_better:
            parts.append(f'<line class="goal" x1="{x(goal):.1f}" x2="{x(goal):.1f}" y1="{y - 1}" y2="{y + 21}"/>')
    return "\n".join([*parts, "</svg>\n"])


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """Powers of two around all values and 1.

    >>> _bounds([0.3, 5.0])
    (0.25, 8.0)
    """
    low, high = min([1.0, *(value for value in values if value > 0)]), max([2.0, *values])
    return 2.0 ** max(-6, math.floor(math.log2(low))), 2.0 ** min(8, math.ceil(math.log2(high)))
