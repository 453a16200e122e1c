"""Output rate over time as a picture, one panel a library; written by hand, since it is nothing but lines."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bench.elastic.measure import Curve

_WIDTH, _PANEL, _LEFT, _TOP = 960, 180, 60, 50
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 16px; font-weight: 600 } .small { font-size: 11px }
  .axis { stroke: #59636e } .rate { stroke: #0969da; fill: none; stroke-width: 1.5 }
  .event { stroke: #bc4c00; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .axis { stroke: #9198a1 } .rate { stroke: #4493f8 } .event { stroke: #f0883e }
  }
"""


def svg(title: str, curves: Sequence[Curve]) -> str:
    """All curves of one scenario on the same scale."""
    seconds = max((curve.points[-1][0] for curve in curves if curve.points), default=1.0)
    rates = [[_rate(curve, i) for i in range(1, len(curve.points))] for curve in curves]
    highest = max((rate for of_one in rates for rate in of_one), default=1.0) or 1.0
    height = _TOP + (_PANEL + 40) * len(curves)

    def x(at: float) -> float:
        return _LEFT + at / seconds * (_WIDTH - _LEFT - 20)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<text class="title" x="10" y="24">{escape(title)}: records of output a second</text>',
    ]
    for number, (curve, of_one) in enumerate(zip(curves, rates)):
        bottom = _TOP + number * (_PANEL + 40) + _PANEL
        line = " ".join(
            f"{x(at):.1f},{bottom - rate / highest * (_PANEL - 20):.1f}" for (at, _), rate in zip(curve.points[1:], of_one)
        )
        label = f"{escape(curve.name)}: longest gap {curve.longest_gap(_first(curve)):.1f} s"
        parts += [
            f'<text x="{_LEFT}" y="{bottom - _PANEL + 8}">{label}</text>',
            f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - 20}" y1="{bottom}" y2="{bottom}"/>',
            f'<text class="small" x="{_LEFT - 8}" y="{bottom - _PANEL + 24}" text-anchor="end">{highest:,.0f}</text>',
            f'<polyline class="rate" points="{line}"/>',
        ]
        for at, what in curve.events:
            parts.append(f'<line class="event" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{bottom - _PANEL + 16}" y2="{bottom}"/>')
            parts.append(f'<text class="small" x="{x(at) + 3:.1f}" y="{bottom + 14}">{escape(what)} {at:.0f} s</text>')
    return "\n".join([*parts, "</svg>\n"])


def _rate(curve: Curve, index: int) -> float:
    (before, had), (at, has) = curve.points[index - 1], curve.points[index]
    return (has - had) / max(at - before, 1e-9)


def _first(curve: Curve) -> float:
    return curve.events[0][0] if curve.events else 0.0
