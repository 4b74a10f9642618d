"""What is a seam, and does what is found there fit what is expected?

Values and the verdict only. `seams` learns what is there by import, `seam_source` from Python files
without importing anything; both ask here, so that they cannot judge differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VLLM_REPOSITORY = "https://github.com/vllm-project/vllm"
VLLM_FILES = f"{VLLM_REPOSITORY}/blob/v0.32.0/vllm"

FactKind = Literal["parameters", "fields", "mentions", "missing"]


@dataclass(frozen=True, slots=True)
class Seam:
    """One place of vLLM that Paceline hooks into or reads."""

    name: str
    target: str
    """`module:attribute.attribute`."""
    expected: tuple[str, ...]
    """Parameter names of a callable; of a class, annotated fields that must be there; of an
    `__init__`, and where `is_body` says so, names that the body must mention."""
    part: Literal[
        "steering",
        "sampler_check",
        "sampler_repair",
        "top_k_repair",
        "generator_repair",
        "resting_draft",
        "plain_sampling",
        "hindsight",
        "first_token",
        "pacing",
        "v2_draft_length",
        "worker",
    ]
    """What steps aside when the seam does not fit. `worker`: read in vLLM's workers, whose modules
    the engine core should not load; the tests check these."""
    purpose: str
    upstream: str
    remove_when: str
    is_body: bool = False


@dataclass(frozen=True, slots=True)
class SeamFacts:
    """What was found where a seam points."""

    kind: FactKind
    """`parameters` of a callable, in order; annotated `fields` of a class, its own; names that a
    body `mentions`, its local variables apart; `missing`: nothing is there."""
    names: tuple[str, ...] = ()
    why_missing: str = ""


def is_judged_by_body(seam: Seam) -> bool:
    """Whether the names in the body count, and not the parameters."""
    return seam.is_body or seam.target.endswith(".__init__")


def judge_seam(seam: Seam, found: SeamFacts) -> str:
    """ "ok", or in words how what was found differs from what the register expects."""
    if found.kind == "missing":
        return f"{seam.target} is not there: {found.why_missing}"
    if found.kind == "parameters":
        if found.names == seam.expected:
            return "ok"
        expected = ", ".join(seam.expected)
        return f"{seam.target} takes ({', '.join(found.names)}), expected ({expected})"
    lacking = ", ".join(name for name in seam.expected if name not in found.names)
    if not lacking:
        return "ok"
    verb = "lacks" if found.kind == "fields" else "does not mention"
    return f"{seam.target} {verb} {lacking}"
