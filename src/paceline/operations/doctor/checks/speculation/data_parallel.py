"""`data-parallel-drafts`: drafting on data-parallel ranks, where vLLM ignores its length table."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import Evidence, Finding, Severity, unknown_cost


def _judge(observation: Observation) -> Sequence[Finding]:
    if observation.kind != "vllm" or len(observation.engines) < 2:
        return ()
    drafting = [
        name for name, one in observation.engines.items() if one[-1].drafts_total is not None
    ]
    if not drafting:
        return ()
    return [
        Finding(
            id="data-parallel-drafts",
            severity=Severity.INFO,
            summary=(
                f"{len(observation.engines)} data-parallel ranks draft: vLLM ignores "
                "num_speculative_tokens_per_batch_size there."
            ),
            evidence=(Evidence("ranks that draft", len(drafting)),),
            cost=unknown_cost("the metrics do not show whether a length table is configured"),
            cause=(
                "Ranks that chose different lengths would deadlock, so vLLM drafts the fixed "
                "number of tokens at every load (vllm #45963)."
            ),
            remedy="Serve replicas of one rank each, so that the length can follow the load",
            settings=("data_parallel_size",),
        )
    ]


CHECK = Check(
    "data-parallel-drafts",
    "drafts on data-parallel ranks",
    ("data-parallel-drafts",),
    _judge,
)
