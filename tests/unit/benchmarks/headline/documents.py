"""Result documents with known figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = tuple[int, int, float, float, float | None]


def document(
    rates: Mapping[str, Sequence[Sequence[float | None]]],
    cells: Sequence[str],
    *,
    requests: Sequence[Row] | None = None,
    drafted: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """A result with the output tokens/s of `rates`, by arm, repeat and cell.

    A rate of None: the arm does not run the cell.

    Every turn answers `requests`: prompt tokens, output tokens, ms to the first token, ms to the
    last one, longest pause. By default two answers of 50 tokens, the first token after 100 ms, the
    others at the pace of one stream at this rate. `drafted`: drafted and accepted tokens by arm.
    """
    runs = []
    for arm, rows in rates.items():
        for repeat, row in enumerate(rows):
            for cell, rate in zip(cells, row, strict=True):
                if rate is None:
                    continue
                pace_ms = 1000 / rate
                answer = (40, 50, 100.0, 100.0 + 49 * pace_ms, 2 * pace_ms)
                given = list(requests) if requests is not None else [answer, answer]
                turn = {
                    "repeat": repeat, "cell": cell, "arm": arm,
                    "seconds": sum(r[1] for r in given) / rate, "num_errors": 0, "error": None,
                    "max_dispatch_delay_ms": 0.1, "requests": given,
                }  # fmt: skip
                if drafted and arm in drafted:
                    turn["drafted_tokens"], turn["accepted_tokens"] = drafted[arm]
                runs.append(turn)
    skipped = [
        [arm, cell]
        for arm, rows in rates.items()
        for cell, rate in zip(cells, rows[0], strict=True)
        if rate is None
    ]
    return {
        "plan": {
            "draft": "n-gram lookup", "arms": list(rates), "cells": list(cells), "repeats": 2,
            "skipped": skipped, "max_tokens": 64, "usd_per_hour": 0.36,
            "price_source": "a price list", "note": "", "seed": 0,
        },
        "environment": {
            "cpu_model": "a processor", "num_logical_cores": 2, "load_average_1_min": 0.1,
            "vllm_installed": "0.32.0", "paceline": "0.1.0", "commit": "0123456",
            "date_utc": "2026-01-01T00:00:00", "command": "a command",
        },
        "quality": {},
        "read_bytes": dict.fromkeys(rates, 200_000_000),
        "bandwidth_bytes_per_s": {"0": 20e9, "1": 24e9, "2": 20e9},
        "idle": {arm: {"cores": 0.01, "memory_mib": 900} for arm in rates},
        "runs": runs,
    }  # fmt: skip
