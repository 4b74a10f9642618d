"""Result documents with known figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = tuple[int, int, float, float, float | None]


def document(
    rates: Mapping[str, Sequence[Sequence[float]]],
    cells: Sequence[str],
    *,
    models: Sequence[str] = ("bundled",),
    slices: int = 1,
    requests: Sequence[Row] | None = None,
    drafted: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """A result with the output tokens/s of `rates`, by arm, repeat and cell; equal for all models.

    Every turn answers `requests`: prompt tokens, output tokens, ms to the first token, ms to the
    last one, longest pause. By default two answers of 50 tokens, the first token after 100 ms, the
    others at the pace of one stream at this rate. `drafted`: drafted and accepted tokens by arm.
    """
    runs = []
    for model in models:
        for position, (arm, rows) in enumerate(rates.items()):
            for repeat, row in enumerate(rows):
                for cell, rate in zip(cells, row, strict=True):
                    pace_ms = 1000 / rate
                    answer = (40, 50, 100.0, 100.0 + 49 * pace_ms, 2 * pace_ms)
                    given = list(requests) if requests is not None else [answer, answer]
                    turn = {
                        "model": model, "repeat": repeat, "cell": cell, "arm": arm,
                        "position": position, "seconds": sum(r[1] for r in given) / rate,
                        "max_dispatch_delay_ms": 0.1, "num_errors": 0, "error": None,
                        "requests": given,
                    }  # fmt: skip
                    if drafted and arm in drafted:
                        turn["drafted_tokens"], turn["accepted_tokens"] = drafted[arm]
                    runs += [{**turn, "slice": repeat * slices + part} for part in range(slices)]
    return {
        "plan": {
            "models": list(models), "arms": list(rates), "cells": list(cells), "repeats": 2,
            "slices": slices, "max_tokens": 96, "offered_fraction": 0.7, "usd_per_hour": 0.36,
            "price_source": "a price list", "note": "", "seed": 0,
        },
        "environment": {
            "cpu_model": "a processor", "num_logical_cores": 2, "load_average_1_min": 0.1,
            "vllm_installed": "0.32.0", "paceline": "0.1.0", "commit": "0123456",
            "date_utc": "2026-01-01T00:00:00", "command": "a command",
        },
        "offered_per_s": dict.fromkeys(models, 2.5),
        "idle_cores": {model: dict.fromkeys(rates, 0.01) for model in models},
        "runs": runs,
    }  # fmt: skip
