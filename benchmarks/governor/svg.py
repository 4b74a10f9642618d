"""Marks on a plane as an SVG text: axes, lines, bars, words. No library: the plots are simple."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

COLOURS = (
    "#4477aa",
    "#ee6677",
    "#228833",
    "#ccbb44",
    "#66ccee",
    "#aa3377",
    "#999999",
    "#994400",
    "#000000",
)
"""Paul Tol's bright scheme, which colour-blind readers can tell apart, brown and black."""
Point = tuple[float, float]


@dataclass(slots=True)
class Drawing:
    """A sheet of `width` by `height` pixels. Mutated by drawing; later marks lie on top."""

    width: int
    height: int
    _marks: list[str] = field(default_factory=list)

    def rectangle(
        self, x: float, y: float, width: float, height: float, colour: str, opacity: float = 1.0
    ) -> None:
        self._marks.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
            f'height="{max(height, 0):.1f}" fill="{colour}" fill-opacity="{opacity:g}"/>'
        )

    def line(
        self, points: Sequence[Point], colour: str, width: float = 1.0, dashes: str = ""
    ) -> None:
        """Through all points in order; nothing for fewer than two."""
        if len(points) < 2:
            return
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._marks.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" '
            f'stroke-width="{width:g}"{dashed}/>'
        )

    def text(
        self, x: float, y: float, words: str, *, size: int = 11, anchor: str = "start"
    ) -> None:
        """`anchor`: start, middle or end."""
        self._marks.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )

    def render(self) -> str:
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" '
                f'height="{self.height}" viewBox="0 0 {self.width} {self.height}" '
                'font-family="sans-serif">',
                f'<rect width="{self.width}" height="{self.height}" fill="white"/>',
                *self._marks,
                "</svg>\n",
            )
        )


@dataclass(frozen=True, slots=True)
class Panel:
    """A rectangle of the sheet with its own scales."""

    drawing: Drawing
    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * self.width

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.top + self.height - (value - low) / (high - low) * self.height

    def point(self, x: float, y: float) -> Point:
        return self.x(x), self.y(y)

    def draw_y_axis(self, form: str = "g", num_ticks: int = 4) -> None:
        """Round ticks with faint lines across."""
        for tick in round_ticks(*self.y_range, num_ticks):
            height = self.y(tick)
            self.drawing.line([(self.left, height), (self.left + self.width, height)], "#dddddd")
            self.drawing.text(self.left - 4, height + 4, format(tick, form), size=10, anchor="end")

    def draw_title(self, words: str) -> None:
        self.drawing.text(self.left, self.top - 6, words, size=11)


def round_ticks(low: float, high: float, num_ticks: int) -> list[float]:
    """About `num_ticks` multiples of 1, 2 or 5 times a power of ten within the range.

    >>> round_ticks(0.0, 9.0, 4)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    rough = (high - low) / max(num_ticks, 1)
    if rough <= 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda size: abs(size - rough))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 10) for index in range(first, last + 1)]
