"""Mock servers in place of the arms: they show that a run takes its course, and measure nothing.

They report no drafted tokens, so the report of a dry run has no acceptance rate.
"""

from __future__ import annotations

from typing import Any

from benchmarks.headline.arms import NAIVE, PACELINE, Arm

_TPOT_MS = {NAIVE: 4.0, PACELINE: 1.0}
_OTHER_TPOT_MS = 2.0


def mock_plan(arm: Arm) -> dict[str, Any]:
    """`paceline mock-vllm` with the pace of this kind of arm; naive answers one at a time."""
    options = {
        "--model": "mock",
        "--port": "{port}",
        "--tpot-ms": str(_TPOT_MS.get(arm.kind, _OTHER_TPOT_MS)),
        "--max-num-seqs": "1" if arm.is_serial else "64",
        # A token of the mock is a character: prompts are long, and must not take long.
        "--prefill-tokens-per-s": "1000000",
        "--max-model-len": "16384",
        "--eos-every-tokens": "0",
    }
    words = [word for option in options.items() for word in option]
    if arm.reports_drafts:
        words += ["--speculates", "--tokens-per-chunk", "1,3"]
    return {"command": ["paceline", "mock-vllm", *words]}
