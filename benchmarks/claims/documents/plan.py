"""The claims of docs/plan.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.planner.check_speculation import SWEEPS, judge, share_of, step_error

DOCUMENT = "docs/plan.md"
NOT_MEASURED = {
    "setting": ("twin with 1 to 16 requests", "steps of 1 and 8\nrequests"),
    "unit test": (
        "a table of 48 cells, where 46 are",
        "the plan predicts 1.75 times the rate without drafts",
    ),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    models = read("planner-oracles-2026-11-22.json")["models"]
    errors = [error for model in models for error in model["errors"].values() if error is not None]
    yield claim(
        "on {num_models} models all {num_figures} figures agree within {bound:.3f} %",
        num_models=len(models),
        num_figures=len(errors),
        bound=max(1, math.ceil(max(errors) * 1e5)) / 1e3,
    )
    yield from _measured_here(
        read("planner-memory-2026-11-24.json"), read("planner-decode-time-2026-11-24.json")
    )
    chosen_on, *held_out, lookup = (share_of(judge(one, read(one.file))) for one in SWEEPS)
    right, cells = sum(one.right for one in held_out), sum(one.cells for one in held_out)
    yield claim(
        "{right} of {cells} cells are right ({percent:.0f} %)",
        right=right,
        cells=cells,
        percent=100 * right / cells,
    )
    sweep, trace, other = held_out
    yield claim("{one.right} of {one.cells} of an [interleaved sweep]", one=sweep)
    yield claim("{one.right} of {one.cells} of a [shifting trace]", one=trace)
    yield claim("and {one.right} of {one.cells} of the same trace on", one=other)
    yield claim("where {one.right} of {one.cells} are right, and on a table", one=chosen_on)
    yield claim("{one.right} of {one.cells} are right ([raw result]", one=lookup)
    gain = _gain_of_the_bundled_pair(read("speculation-bundled-2026-11-21.json.gz"))
    yield claim(
        "are {low:.2f} to {high:.2f} times in four repeats", low=gain["min"], high=gain["max"]
    )
    yield claim(
        "of the {one.settled} cells whose repeats all agree on the sign, {one.settled_right}",
        one=lookup,
    )
    yield claim(
        "predicted {twin:.0f} % too short for the [twin]",
        twin=-100 * step_error(read("served-rate-twin-2026-11-21.json"), is_twin=True),
    )
    yield claim(
        "and {bundled:.0f} % too long for the [bundled target]",
        bundled=100 * step_error(read("served-rate-bundled-2026-11-21.json"), is_twin=False),
    )


def _gain_of_the_bundled_pair(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Output tokens per second with its draft model over those without, on predictable text."""
    (found,) = (
        one
        for one in document["comparisons"]
        if one["load"].startswith("predictable")
        and one["arm"] == "draft model, goodput"
        and one["baseline"] == "no speculation"
        and one["figure"] == "output_tokens_per_s"
    )
    assert isinstance(found, dict)
    return found


def _measured_here(memory: Mapping[str, Any], times: Mapping[str, Any]) -> Iterator[Claim]:
    tokens = sorted(one["tokens_error"] for one in memory["configurations"])
    assert max(tokens[:-1]) == 0.0
    yield claim(
        "the weights of {num_models} models and\nformats agree within {bound:.3f} %",
        num_models=len(tokens),
        bound=math.ceil(memory["worst"]["weights_error"] * 1e5) / 1e3,
    )
    yield claim("exactly ({apart:.2f} % apart", apart=100 * tokens[-1])
    yield claim(
        "the planned steps are {error:.0f} % off in the median",
        error=100 * times["median_error"]["uncalibrated"],
    )
    yield claim("the others are {error:.1f} % off", error=100 * times["median_error"]["calibrated"])
