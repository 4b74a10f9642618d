"""Known defects of serving engines, matched with what an audit found. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.workbench.audit.checks.acceptance import AcceptanceResult
from paceline.workbench.audit.checks.greedy import GreedyResult
from paceline.workbench.audit.checks.sampled import SampledResult
from paceline.workbench.audit.server.server import Support


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """An upstream issue that may explain a finding."""

    url: str
    summary: str
    applies_if: str
    """What the audit cannot see from outside."""


VLLM_CPU = KnownIssue(
    "https://github.com/vllm-project/vllm/issues/55005",
    "on CPUs, vLLM verifies sampled drafts with temperature, top-k and top-p from uninitialised "
    "memory, which may end the engine",
    "the engine is vLLM on a CPU, without the fix of pull request 55006",
)
TENSORRT_STALE_DRAFT = KnownIssue(
    "https://github.com/NVIDIA/TensorRT-LLM/pull/16888",
    "while the draft length is 0, the draft's state is not refreshed, and acceptance collapses "
    "when drafting resumes",
    "the engine is TensorRT-LLM with draft_len_schedule or max_concurrency",
)
OPENVINO_LATE_REJECTION = KnownIssue(
    "https://github.com/openvinotoolkit/openvino.genai/issues/4190",
    "with sampling, a rejected draft is handled one iteration late: a token is dropped and its "
    "continuation kept",
    "the engine is OpenVINO GenAI with draft_model()",
)


def known_issues(
    support: Support,
    greedy: GreedyResult,
    sampled: SampledResult,
    acceptance: AcceptanceResult,
    *,
    ends_on_samples: bool = False,
) -> list[KnownIssue]:
    """The issues that fit, by the server's name and what was found.

    `ends_on_samples`: the audited server ended after sampled requests began.
    """
    found = []
    owner = (support.owned_by or "").lower()
    is_sampled_only = sampled.is_found and not sampled.is_control_wrong and not greedy.wrong
    is_vllm = owner in ("", "vllm", "paceline") or support.version is not None
    if is_vllm and (is_sampled_only or (ends_on_samples and not greedy.wrong)):
        found.append(VLLM_CPU)
    if is_sampled_only and ("openvino" in owner or "ovms" in owner):
        found.append(OPENVINO_LATE_REJECTION)
    if acceptance.collapses:
        found.append(TENSORRT_STALE_DRAFT)
    return found
