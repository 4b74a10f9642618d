"""What exactly is run: servers, arms, trace and times, as one document that the results carry."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.governor.arms import MAX_DRAFT_LENGTH
from benchmarks.governor.phases import TRACE
from paceline.demo import draft_path

BUNDLED = "bundled"
MAX_NUM_SEQS = 64
"""Twice the highest load of the trace: cancelled requests may still be there for a step."""
KV_CACHE_BYTES = 512 * 1024**2
BUCKET_S = 0.25
BUNDLED_PHASE_S, OTHER_PHASE_S = 4.0, 8.0
BUNDLED_CONTEXT_TOKENS, OTHER_CONTEXT_TOKENS = 1024, 640
"""Of a long prompt and its answer: what the bundled pair was trained on (its limit is 2048). Less
for larger targets: on two busy cores, eight prompts of 768 tokens took the twin a phase of 8 s."""
DRAFTERS = ("model", "ngram")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says."""

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
        """Names the result files."""
        folder = self.target.rstrip("/").rpartition("/")[2]
        return f"governor-{folder}-{self.drafter}"


def build_plan(wishes: Wishes) -> dict[str, Any]:
    """The document under `plan` in the results; equal wishes, equal plan."""
    draft = "ngram" if wishes.drafter == "ngram" else _draft_model(wishes)
    return {
        "name": wishes.name,
        **asdict(wishes),
        "arms": list(wishes.arms),
        "bucket_s": BUCKET_S,
        "phases": [asdict(phase) for phase in TRACE],
        "servers": {
            "plain": server_plan(wishes.target, ["--draft", "none"]),
            "drafted": server_plan(
                wishes.target, ["--draft", draft, "--draft-length-max", str(MAX_DRAFT_LENGTH)]
            ),
        },
    }


def _draft_model(wishes: Wishes) -> str:
    """What `--draft` is told; with the bundled target, `auto` finds the bundled draft model."""
    if wishes.draft_model != BUNDLED:
        return wishes.draft_model
    return "auto" if wishes.target == BUNDLED else os.path.relpath(draft_path())


def server_plan(target: str, options: Sequence[str]) -> dict[str, Any]:
    """A server in the form of `benchmarks.servers`, with what all servers share."""
    return {
        "command": [
            *("paceline", "serve"),
            *([] if target == BUNDLED else [target]),
            *("--port", "{port}", "--admin-port", "{admin_port}"),
            *options,
            *("--", "--no-enable-prefix-caching", "--max-num-seqs", str(MAX_NUM_SEQS)),
        ],
        "env": {
            "PACELINE_ENGINE__KV_CACHE_BYTES": str(KV_CACHE_BYTES),
            # Source goes on for a fixed number of tokens, past any end that the model may draw.
            "PACELINE_SERVER__GRANTED_FIELDS": json.dumps(["ignore_eos"]),
        },
    }


def with_table(plan: Mapping[str, Any], table: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The server's plan with the table of the policy `schedule`."""
    schedule = json.dumps([list(entry) for entry in table])
    return {**plan, "env": {**plan["env"], "PACELINE_ENGINE__SCHEDULE": schedule}}
