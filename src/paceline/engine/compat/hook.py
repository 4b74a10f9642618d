"""What is a hook, and does what is found there fit what is expected?

Values and the verdict only. `hooks` learns what is there by import, `hook_source` from Python files
without importing anything; both ask here, so that they cannot judge differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VLLM_REPOSITORY = "https://github.com/vllm-project/vllm"
VLLM_FILES = f"{VLLM_REPOSITORY}/blob/v0.32.0/vllm"

FactKind = Literal["parameters", "fields", "mentions", "missing"]


@dataclass(frozen=True, slots=True)
class VllmHook:
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
        "replay_scoring",
        "first_token",
        "pacing",
        "v2_draft_length",
        "worker",
    ]
    """What steps aside when the hook does not fit. `worker`: read in vLLM's workers, whose modules
    the engine core should not load; the tests check these."""
    purpose: str
    upstream: str
    remove_when: str
    is_body: bool = False


@dataclass(frozen=True, slots=True)
class HookFacts:
    """What was found where a hook points."""

    kind: FactKind
    """`parameters` of a callable, in order; annotated `fields` of a class, its own; names that a
    body `mentions`, its local variables apart; `missing`: nothing is there."""
    names: tuple[str, ...] = ()
    why_missing: str = ""


def is_judged_by_body(hook: VllmHook) -> bool:
    """Whether the names in the body count, and not the parameters."""
    return hook.is_body or hook.target.endswith(".__init__")


def judge_hook(hook: VllmHook, found: HookFacts) -> str:
    """ "ok", or in words how what was found differs from what the register expects."""
    if found.kind == "missing":
        return f"{hook.target} is not there: {found.why_missing}"
    if found.kind == "parameters":
        if found.names == hook.expected:
            return "ok"
        expected = ", ".join(hook.expected)
        return f"{hook.target} takes ({', '.join(found.names)}), expected ({expected})"
    lacking = ", ".join(name for name in hook.expected if name not in found.names)
    if not lacking:
        return "ok"
    verb = "lacks" if found.kind == "fields" else "does not mention"
    return f"{hook.target} {verb} {lacking}"
