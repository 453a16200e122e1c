"""Output over time as a picture, one panel a library; written by hand, since it is nothing but lines."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bench.elastic.measure import PARTITIONS, STEP, Curve

_WIDTH, _LEFT, _RIGHT, _TOP, _RATE, _STRIP = 960, 70, 20, 50, 90, 9
_PANEL = _RATE + PARTITIONS * _STRIP + 78
_BIN = 5  # steps of a tenth of a second: half a second is a point of the line
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 16px; font-weight: 600 } .small { font-size: 11px }
  .axis { stroke: #59636e } .rate { stroke: #0969da; fill: none; stroke-width: 1.5 } .flow { fill: #0969da }
  .none { fill: #ffebe9 } .event { stroke: #bc4c00; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .axis { stroke: #9198a1 } .rate { stroke: #4493f8 } .flow { fill: #4493f8 } .none { fill: #67211c }
    .event { stroke: #f0883e }
  }
"""


def svg(title: str, curves: Sequence[Curve]) -> str:
    """All curves of one scenario on the same scale: the rate of the output, and below it when each partition had any."""
    seconds = max((curve.seconds for curve in curves), default=1.0) or 1.0
    height = _TOP + _PANEL * len(curves)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<text class="title" x="10" y="24">{escape(title)}: records of output a second, and partitions with output</text>',
    ]
    for number, curve in enumerate(curves):
        parts += _panel(curve, _TOP + number * _PANEL, seconds)
    return "\n".join([*parts, "</svg>\n"])


def _panel(curve: Curve, top: float, seconds: float) -> list[str]:
    def x(at: float) -> float:
        return _LEFT + at / seconds * (_WIDTH - _LEFT - _RIGHT)

    rates = _rates(curve)
    # What was waiting comes out at once: such peaks are cut off, so that the steady rate can be seen.
    steady = sorted(rate for _, rate in rates if rate)
    highest = 3 * steady[len(steady) // 2] if steady else 1.0
    bottom = top + 16 + _RATE
    line = " ".join(f"{x(at):.1f},{bottom - min(rate, highest) / highest * _RATE:.1f}" for at, rate in rates)
    start = curve.first_event
    label = (
        f"{curve.name}: longest gap of a partition {curve.longest_gap(start):.1f} s, {curve.replayed(start):,} records replayed"
    )
    parts = [
        f'<text x="{_LEFT}" y="{top + 8}">{escape(label)}</text>',
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}"/>',
        f'<text class="small" x="{_LEFT - 8}" y="{top + 24}" text-anchor="end">{highest:,.0f}/s</text>',
        f'<polyline class="rate" points="{line}"/>',
    ]
    for partition in range(PARTITIONS):
        y = bottom + 6 + partition * _STRIP
        parts.append(f'<text class="small" x="{_LEFT - 8}" y="{y + 8}" text-anchor="end">{partition}</text>')
        parts.append(f'<rect class="none" x="{_LEFT}" y="{y}" width="{x(curve.seconds) - _LEFT:.1f}" height="{_STRIP - 2}"/>')
        parts += [
            f'<rect class="flow" x="{x(begin):.1f}" y="{y}" width="{x(end) - x(begin):.1f}" height="{_STRIP - 2}"/>'
            for begin, end in _flows(curve, partition)
        ]
    end = bottom + 6 + PARTITIONS * _STRIP
    for number, (at, what) in enumerate(curve.events):
        parts.append(f'<line class="event" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{top + 14}" y2="{end}"/>')
        parts.append(
            f'<text class="small" x="{x(at) + 3:.1f}" y="{end + 12 + 12 * (number % 2)}">{escape(what)}, {at:.0f} s</text>'
        )
    return parts


def _rates(curve: Curve) -> list[tuple[float, float]]:
    steps = int(curve.seconds / STEP) + 1
    total = [sum(output.get(step, 0) for output in curve.output.values()) for step in range(steps)]
    return [(i * STEP, sum(total[i : i + _BIN]) / (_BIN * STEP)) for i in range(0, steps - _BIN, _BIN)]


def _flows(curve: Curve, partition: int) -> list[tuple[float, float]]:
    """From when to when a partition had output, with no second between two records."""
    flows: list[tuple[float, float]] = []
    for step in sorted(curve.output.get(partition, ())):
        at = step * STEP
        if at > curve.seconds:
            break
        if flows and at - flows[-1][1] <= 1.0:
            flows[-1] = (flows[-1][0], at + STEP)
        else:
            flows.append((at, at + STEP))
    return flows
