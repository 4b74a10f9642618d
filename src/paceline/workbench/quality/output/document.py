"""The JSON document of `paceline quality`. docs/how-to/check-quality.md defines every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from paceline.foundation.answer_quality.decisions.limits import APPROVE_ERROR, FALSE_REJECTION
from paceline.workbench.quality.baseline import Baseline
from paceline.workbench.quality.candidate import CandidateReport

_SCHEMA_VERSION = 1


def render_document(
    baseline: Baseline, reports: Sequence[CandidateReport], environment: Mapping[str, Any]
) -> dict[str, Any]:
    """What `--json` writes."""
    options = baseline.options
    prompts = baseline.file.prompts
    return {
        "schema_version": _SCHEMA_VERSION,
        "kind": "paceline quality",
        "baseline": {"model": str(options.baseline), "revision": baseline.revision},
        "draft": None if options.draft is None else str(options.draft),
        "prompts": {
            "sha256": prompts.sha256,
            "num_prompts": len(prompts.prompts),
            "num_conversations": len({prompt.conversation for prompt in prompts.prompts}),
            "num_too_long": prompts.num_too_long,
        },
        "settings": {
            "dtype": str(options.dtype).removeprefix("torch."),
            "kv_cache_format": options.target.kv_cache_format,
            "hardware": options.target.hardware,
            "vllm_release": options.target.vllm_release,
            "temperatures": [sampling.temperature for sampling in options.samplings],
            "max_tokens": options.max_tokens,
            "seed": options.seed,
        },
        "limits": asdict(options.limits),
        "errors": {"false_rejection": FALSE_REJECTION, "false_approval": APPROVE_ERROR},
        "candidates": [asdict(report) for report in reports],
        "environment": dict(environment),
    }
