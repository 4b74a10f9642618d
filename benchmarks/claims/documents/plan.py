"""The claims of docs/plan.md."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/plan.md"
NOT_MEASURED = {"unit test": ("to 48 measured cells", "46 are right")}


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
