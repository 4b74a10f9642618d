"""Faults of vLLM releases on CPUs that change an output or end the engine.

Each was seen in tests of this project, which keep the correction; `evidence` is the upstream issue,
or the place in vLLM's source. docs/vllm-hooks.md says for each release which corrections fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paceline.foundation.compatibility.vllm_releases import INSTALLED, short_release

_SOURCE = f"https://github.com/vllm-project/vllm/blob/v{INSTALLED}/vllm"


@dataclass(frozen=True, slots=True)
class CpuDefect:
    """One fault of vLLM alone, on a CPU."""

    effect: str
    """What happens, as the end of a sentence that begins with the release."""
    evidence: str
    releases: tuple[str, ...]
    """Major and minor version."""
    corrected: tuple[str, ...]
    """Those of the releases in which Paceline's plugin corrects it."""
    needs_speculation: bool
    is_common: bool
    """Whether ordinary requests meet it; else only those that use one parameter."""


CPU_DEFECTS: Final = (
    CpuDefect(
        "gives sampled requests tokens of a wrong distribution when it speculates, and top_k may "
        "end the engine",
        "https://github.com/vllm-project/vllm/issues/55005",
        ("0.26", "0.32", "0.33"),
        ("0.32", "0.33"),
        needs_speculation=True,
        is_common=True,
    ),
    CpuDefect(
        "ends the engine at a prompt with a seed that is computed in pieces",
        f"{_SOURCE}/v1/worker/gpu_model_runner.py",
        ("0.32",),
        ("0.32",),
        needs_speculation=False,
        is_common=False,
    ),
    CpuDefect(
        "ends requests with min_tokens some tokens later when it speculates",
        f"{_SOURCE}/v1/sample/logits_processor/builtin.py",
        ("0.32",),
        ("0.32",),
        needs_speculation=True,
        is_common=False,
    ),
    CpuDefect(
        "may end the thinking of the wrong request, or at the wrong place, when requests with "
        "thinking_token_budget are speculated",
        f"{_SOURCE}/v1/sample/thinking_budget_state.py",
        ("0.32",),
        ("0.32",),
        needs_speculation=True,
        is_common=False,
    ),
)


def cpu_defects(release: str, *, speculates: bool, has_plugin: bool) -> tuple[CpuDefect, ...]:
    """The known faults of a release such as "0.32.0" on a CPU, less those that Paceline corrects.

    >>> [one.evidence[-5:] for one in cpu_defects("0.26.0", speculates=True, has_plugin=True)]
    ['55005']
    >>> cpu_defects("0.32.0", speculates=True, has_plugin=True)
    ()
    """
    short = short_release(release)
    return tuple(
        one
        for one in CPU_DEFECTS
        if short in one.releases
        and not (has_plugin and short in one.corrected)
        and (speculates or not one.needs_speculation)
    )
