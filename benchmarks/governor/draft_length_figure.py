"""Draw the picture of the README: draft length, load and rate over one governed run.

    python benchmarks/governor/draft_length_figure.py \\
        benchmarks/results/earlier/governor-twin-model-2026-11-21.json.gz \\
        docs/images/draft-length.svg

The first file is a result of `run.py`. Needs matplotlib, which `make install-dev`
installs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.results_file import read_result

_INK, _LENGTH, _RATE, _SHADE = "#333333", "#0b6e99", "#c2571a", "#f1f3f5"


def draw(document: dict[str, Any], repeat: int, out: Path) -> None:
    """One governed run of `document` as SVG: draft length above, output tokens/s below."""
    import matplotlib.pyplot as plt

    run = next(r for r in document["runs"] if r["arm"] == "goodput" and r["repeat"] == repeat)
    none = next(r for r in document["runs"] if r["arm"] == "none" and r["repeat"] == repeat)
    phases = document["plan"]["phases"]
    ends = [sum(p["seconds"] for p in run["phases"][: n + 1]) for n in range(len(phases))]
    plt.rcParams.update({"font.size": 9, "text.color": _INK, "svg.hashsalt": "paceline"})
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(9, 4.4), sharex=True, height_ratios=(3, 2), layout="constrained"
    )
    for number, (phase, end_s) in enumerate(zip(phases, ends, strict=True)):
        begin_s = ends[number - 1] if number else 0.0
        for axes in (upper, lower):
            if number % 2 == 0:
                axes.axvspan(begin_s, end_s, color=_SHADE, linewidth=0)
        words = phase["name"].split(" ", 1)[1].replace("predictable long", "predictable,\nlong")
        noun = "request" if phase["concurrency"] == 1 else "requests"
        upper.text(
            (begin_s + end_s) / 2,
            11.2,
            f"{phase['concurrency']} {noun}\n{words}",
            ha="center",
            va="top",
        )
    upper.step(run["governor"]["t_s"], run["governor"]["draft_length"], where="post", color=_LENGTH)
    upper.set(ylim=(-0.4, 11.5), yticks=range(0, 9, 2), ylabel="draft length, tokens")
    for found, colour, name in ((none, "#888888", "no speculation"), (run, _RATE, "governed")):
        rates = [phase["tokens_per_s"] for phase in found["phases"]]
        lower.stairs(rates, [0.0, *ends], color=colour, label=name, baseline=None, linewidth=1.6)
    lower.set(xlabel="time, s", ylabel="output tokens/s", ylim=(0, None), xlim=(0, ends[-1]))
    lower.legend(frameon=False, loc="upper right", ncols=2)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    draw(read_result(Path(sys.argv[1])), 1, Path(sys.argv[2]))
