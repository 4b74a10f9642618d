"""The plan of a run: servers, arms, trace and times, as one document stored with the results."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.governor.trace.arms import MAX_DRAFT_LENGTH
from benchmarks.governor.trace.phases import TRACE
from paceline.demo import draft_path

BUNDLED = "bundled"
MAX_NUM_SEQS = 64
"""Twice the highest load of the trace: cancelled requests may stay in the engine for a step."""
KV_CACHE_BYTES = 512 * 1024**2
BUCKET_S = 0.25
BUNDLED_PHASE_S, OTHER_PHASE_S = 4.0, 8.0
BUNDLED_CONTEXT_TOKENS, OTHER_CONTEXT_TOKENS = 1024, 640
"""A long prompt and its answer together: what the bundled pair was trained on (its limit is 2048).
Fewer for larger targets: on two busy cores the prefill of eight prompts of 768 tokens took the twin
a whole phase of 8 s. The twin is the bundled 11M target padded to the cost of about 120M parameters
with layers that add nothing."""
DRAFTERS = ("model", "ngram")


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The options of the command line."""

    target: str
    drafter: str
    draft_model: str
    """A folder, or `bundled`."""
    repeats: int
    tuning_repeats: int
    phase_s: float
    context_tokens: int
    arms: tuple[str, ...]

    @property
    def name(self) -> str:
        """The beginning of the names of the result files."""
        folder = self.target.rstrip("/").rpartition("/")[2]
        return f"governor-{folder}-{self.drafter}"


def build_plan(options: TraceOptions) -> dict[str, Any]:
    """The document under `plan` in the results. Equal options give an equal plan."""
    draft = "ngram" if options.drafter == "ngram" else _draft_model(options)
    return {
        "name": options.name,
        **asdict(options),
        "arms": list(options.arms),
        "bucket_s": BUCKET_S,
        "phases": [asdict(phase) for phase in TRACE],
        "servers": {
            "plain": server_plan(options.target, ["--draft", "none"]),
            "drafted": server_plan(
                options.target, ["--draft", draft, "--draft-length-max", str(MAX_DRAFT_LENGTH)]
            ),
        },
    }


def _draft_model(options: TraceOptions) -> str:
    """The value of `--draft`; with the bundled target, `auto` finds the bundled draft model."""
    if options.draft_model != BUNDLED:
        return options.draft_model
    return "auto" if options.target == BUNDLED else os.path.relpath(draft_path())


def server_plan(target: str, flags: Sequence[str]) -> dict[str, Any]:
    """A server plan for `benchmarks.servers`, with the options that all servers share."""
    return {
        "command": [
            *("paceline", "serve"),
            *([] if target == BUNDLED else [target]),
            *("--port", "{port}", "--admin-port", "{admin_port}"),
            *flags,
            *("--", "--no-enable-prefix-caching", "--max-num-seqs", str(MAX_NUM_SEQS)),
        ],
        "env": {
            "PACELINE_ENGINE__KV_CACHE_BYTES": str(KV_CACHE_BYTES),
            # Source code has answers of a fixed length, also past an end token.
            "PACELINE_SERVER__GRANTED_FIELDS": json.dumps(["ignore_eos"]),
        },
    }


def with_table(plan: Mapping[str, Any], table: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The server plan with this table for the policy `schedule`."""
    schedule = json.dumps([list(entry) for entry in table])
    return {**plan, "env": {**plan["env"], "PACELINE_ENGINE__SCHEDULE": schedule}}
