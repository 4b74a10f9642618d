"""Result documents with known rates and lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def document(
    rates: Mapping[str, Sequence[Sequence[float]]],
    phases: Sequence[str],
    planned: Mapping[str, Sequence[int]] | None = None,
    *,
    slowed: Sequence[int] | None = None,
) -> dict[str, Any]:
    """A result in which every phase is 100 tokens of work; `rates` by arm, repeat and phase.

    `planned`: the lengths of the steps by arm, the same in every turn. The first step is the
    lead-in, which no figure counts.
    """
    runs = []
    for arm, rows in rates.items():
        steps = list((planned or {}).get(arm, [0]))
        whole = [99, *steps]
        columns: dict[str, Any] = {
            "ms": [1.0] * len(whole),
            "tokens": [1] * len(whole),
            "planned": whole,
            "requests": [1] * len(whole),
            "scheduled": [4] * len(whole),
            "prompt_tokens": [1] * len(whole),
            "drafted": [0] * len(whole),
            "exploring": [0] * len(whole),
            "reason": [0] * len(whole),
        }
        if slowed is not None:
            columns["slowed"] = [0, *slowed]
        runs += [
            {
                "repeat": repeat,
                "phase": phase,
                "arm": arm,
                "tokens": 100,
                "seconds": 100 / row[place],
                "lead_in": 1,
                "policy_errors": 0,
                "reasons": ["the best"],
                "steps": columns,
            }
            for repeat, row in enumerate(rows)
            for place, phase in enumerate(phases)
        ]
    return {
        "plan": {
            "target": "twin", "drafter": "model", "dtype": "float32", "max_draft_length": 8,
            "arms": list(rates), "phases": list(phases), "is_shuffled": True, "steps": [60, 150],
            "slow_down": None, "layout": "served",
        },
        "environment": {
            "cpu_model": "a processor", "num_logical_cores": 2, "load_average_1_min": 0.1,
            "vllm_installed": "0.32.0", "date_utc": "2026-01-01T00:00:00", "command": "a command",
        },
        "commits": dict.fromkeys(rates, "0123456"),
        "runs": runs,
    }  # fmt: skip
