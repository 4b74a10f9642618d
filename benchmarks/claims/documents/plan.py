"""The claims of docs/plan.md."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.planner.check_speculation import SWEEPS, judge, share_of, step_error

DOCUMENT = "docs/plan.md"
NOT_MEASURED = {"unit test": ("a table of 48 cells, where 46 are",)}


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
