"""What do the pictures show? Rates by phase, what the governor did, and where tokens were lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.governor.analysis import Findings
from benchmarks.governor.measured import Floats, Measured
from benchmarks.governor.svg import COLOURS, Drawing, Panel

_LEFT, _WIDTH = 70, 1040
_SHADE = "#f4f4f4"


def plot_throughput(measured: Measured, findings: Findings) -> str:
    """A panel per phase with its own scale: a bar per arm, its range, the oracle as a line."""
    columns, panel_width, panel_height = 4, 230, 150
    rows = -(-len(measured.phases) // columns)
    drawing = Drawing(columns * (panel_width + 60) + 30, rows * (panel_height + 50) + 60)
    for number, phase in enumerate(measured.phases):
        row, column = divmod(number, columns)
        rates = {arm: measured.rates(arm)[:, number] for arm in measured.arms}
        top = max(float(r.max()) for r in rates.values()) or 1.0
        panel = Panel(
            drawing,
            left=50 + column * (panel_width + 60),
            top=40 + row * (panel_height + 50),
            width=panel_width,
            height=panel_height,
            x_range=(0.0, float(len(rates))),
            y_range=(0.0, 1.05 * top),
        )
        panel.draw_y_axis()
        panel.draw_title(f"{phase}, tokens/s (best {findings.oracle_arms[number]})")
        _draw_bars(panel, rates)
        best = float(np.median(rates[findings.oracle_arms[number]]))
        panel.drawing.line(
            [panel.point(0, best), panel.point(len(rates), best)], "#000000", 1, "4 3"
        )
    _draw_legend(drawing, measured.arms, 50, drawing.height - 18)
    return drawing.render()


def plot_decisions(measured: Measured, arm: str) -> str:
    """Draft length and accepted fraction over the trace, a thin line per repeat."""
    drawing = Drawing(_LEFT + _WIDTH + 20, 420)
    end_s = float(measured.seconds.sum())
    samples = [run for run in measured.governor[arm] if len(run["t_s"]) > 1]
    highest = max((max(run["draft_length"]) for run in samples), default=1)
    lengths = Panel(drawing, _LEFT, 40, _WIDTH, 150, (0.0, end_s), (0.0, max(highest, 1) * 1.1))
    accepted = Panel(drawing, _LEFT, 230, _WIDTH, 150, (0.0, end_s), (0.0, 1.05))
    for panel, words in (
        (lengths, f"{arm}: draft length in force, by repeat"),
        (accepted, "accepted of what was drafted since the sample before, by repeat"),
    ):
        _draw_phases(panel, measured)
        panel.draw_y_axis()
        panel.draw_title(words)
    for index, run in enumerate(samples):
        colour = COLOURS[index % len(COLOURS)]
        points = zip(run["t_s"], run["draft_length"], strict=True)
        lengths.drawing.line([lengths.point(min(t, end_s), k) for t, k in points], colour)
        for stretch in _accepted_stretches(
            run["t_s"], run["drafted_tokens"], run["accepted_tokens"]
        ):
            drawing.line([accepted.point(min(t, end_s), share) for t, share in stretch], colour)
    _draw_seconds(accepted, measured)
    return drawing.render()


def plot_regret(measured: Measured, findings: Findings, arms: Sequence[str]) -> str:
    """Tokens behind the oracle so far, mean over repeats; a falling line gains on it."""
    oracle = _series(measured, findings.oracle_arms)
    regrets = {
        arm: np.concatenate(([0.0], np.cumsum(oracle - _series(measured, [arm] * len(oracle)))))
        for arm in arms
    }
    low = min(float(r.min()) for r in regrets.values())
    high = max(float(r.max()) for r in regrets.values())
    drawing = Drawing(_LEFT + _WIDTH + 20, 380)
    end_s = float(measured.seconds.sum())
    margin = max(0.05 * (high - low), 1.0)
    panel = Panel(drawing, _LEFT, 40, _WIDTH, 260, (0.0, end_s), (low - margin, high + margin))
    _draw_phases(panel, measured)
    panel.draw_y_axis("g", 6)
    panel.draw_title("tokens behind the oracle (best fixed length of each phase), mean of repeats")
    for index, regret in enumerate(regrets.values()):
        times = np.linspace(0.0, end_s, len(regret))
        points = [panel.point(t, r) for t, r in zip(times.tolist(), regret.tolist(), strict=True)]
        drawing.line(points, COLOURS[index % len(COLOURS)], 2)
    _draw_seconds(panel, measured)
    _draw_legend(drawing, list(regrets), _LEFT, drawing.height - 18)
    return drawing.render()


def _series(measured: Measured, arms: Sequence[str]) -> Floats:
    """Tokens by bucket over the whole trace, mean of repeats; phase i is taken from `arms[i]`."""
    return np.concatenate(
        [
            measured.bucket_tokens[arms[number]][:, number].mean(axis=0)
            for number in range(len(measured.phases))
        ]
    )


def _accepted_stretches(
    times_s: Sequence[float], drafted: Sequence[float], accepted: Sequence[float]
) -> Iterator[list[tuple[float, float]]]:
    """Accepted fraction between neighbouring samples; broken where nothing was drafted."""
    stretch: list[tuple[float, float]] = []
    for index in range(1, len(times_s)):
        num_drafted = drafted[index] - drafted[index - 1]
        if num_drafted > 0:
            share = (accepted[index] - accepted[index - 1]) / num_drafted
            stretch.append((times_s[index], share))
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _draw_bars(panel: Panel, rates: dict[str, Floats]) -> None:
    for index, values in enumerate(rates.values()):
        left, right = panel.x(index + 0.1), panel.x(index + 0.9)
        top = panel.y(float(np.median(values)))
        panel.drawing.rectangle(
            left, top, right - left, panel.y(0.0) - top, COLOURS[index % len(COLOURS)], 0.85
        )
        middle = (left + right) / 2
        ends = [(middle, panel.y(float(v))) for v in (values.min(), values.max())]
        panel.drawing.line(ends, "#333333", 1.5)


def _draw_phases(panel: Panel, measured: Measured) -> None:
    """A shade behind every second phase, and its name."""
    start_s = 0.0
    for number, (phase, seconds) in enumerate(zip(measured.phases, measured.seconds, strict=True)):
        left, right = panel.x(start_s), panel.x(start_s + seconds)
        if number % 2 == 0:
            panel.drawing.rectangle(left, panel.top, right - left, panel.height, _SHADE)
        panel.drawing.text(left + 3, panel.top + 11, phase, size=9)
        start_s += float(seconds)


def _draw_seconds(panel: Panel, measured: Measured) -> None:
    for time_s in (0.0, *np.cumsum(measured.seconds).tolist()):
        bottom = panel.top + panel.height
        panel.drawing.text(panel.x(time_s), bottom + 14, f"{time_s:g} s", size=10, anchor="middle")


def _draw_legend(drawing: Drawing, names: Sequence[str], left: float, top: float) -> None:
    for index, name in enumerate(names):
        x = left + index * 110
        drawing.rectangle(x, top - 9, 10, 10, COLOURS[index % len(COLOURS)])
        drawing.text(x + 14, top, name)
