"""Result documents with made-up figures."""

from __future__ import annotations

from typing import Any

PHASE_S = 2.0
BUCKET_S = 0.25
REPORT_TOKENS = {
    "none": [[50, 300], [50, 300]],
    "K=0": [[40, 200], [60, 220]],
    "K=2": [[100, 100], [100, 120]],
    "table": [[100, 200], [100, 220]],
    "goodput": [[100, 210], [110, 0]],
}
"""`goodput` loses its second repeat of phase 1."""


def run_of(arm: str, repeat: int, tokens: list[int]) -> dict[str, Any]:
    """`tokens` by phase, spread evenly over eight buckets each; 10 engine steps a second."""
    times = [0.0, PHASE_S * len(tokens)]
    return {
        "arm": arm,
        "repeat": repeat,
        "phases": [
            {
                "name": f"phase {number}",
                "seconds": PHASE_S,
                "tokens": count,
                "bucket_tokens": [count / 8] * 8,
                "inter_chunk_p99_ms": None if count == 0 else 20.0,
                "num_errors": 0,
            }
            for number, count in enumerate(tokens)
        ],
        "governor": {
            "t_s": [] if arm == "none" else times,
            "steps": [] if arm == "none" else [10 * t for t in times],
            "draft_length": [] if arm == "none" else [1, 2],
            "drafted_tokens": [] if arm == "none" else [0, 100],
            "accepted_tokens": [] if arm == "none" else [0, 60],
        },
    }


def document_of(
    tokens: dict[str, list[list[int]]], concurrency: tuple[int, ...] = (1, 8)
) -> dict[str, Any]:
    """`tokens[arm][repeat][phase]`."""
    return {
        "plan": {
            "target": "bundled",
            "drafter": "model",
            "draft_model": "bundled",
            "arms": list(tokens),
            "phase_s": PHASE_S,
            "bucket_s": BUCKET_S,
            "tuning_repeats": 1,
            "phases": [{"concurrency": c} for c in concurrency],
        },
        "environment": {
            "cpu_model": "a processor",
            "num_logical_cores": 2,
            "vllm_server": None,
            "vllm_installed": "1.2.3",
            "paceline": "0.1.0",
            "date_utc": "2026-01-01T00:00:00+00:00",
            "command": "run.py",
            "load_average_1_min": 0.0,
        },
        "idle_cores": {},
        "resumed": 0,
        "table": [[1, 64, 1]] if "table" in tokens else None,
        "runs": [
            run_of(arm, repeat, phases)
            for arm, repeats in tokens.items()
            for repeat, phases in enumerate(repeats)
        ],
    }
