"""A hook into vLLM as a value, and the check whether a vLLM release has what it expects.

Values and a pure function. `checks` finds the facts by importing vLLM, `tools/vllm_hooks/source.py`
by parsing its files; both call `judge_hook`, so that they cannot judge differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.foundation.compatibility.vllm_releases import INSTALLED

VLLM_REPOSITORY = "https://github.com/vllm-project/vllm"
VLLM_FILES = f"{VLLM_REPOSITORY}/blob/v{INSTALLED}/vllm"

FactKind = Literal["parameters", "fields", "mentions", "missing"]
CorePart = Literal[
    "governor",
    "captured_lengths",
    "sampler_check",
    "cpu_sampler",
    "cpu_top_k",
    "prefill_pacing",
    "calibration",
]
"""A part that the engine core checks when it starts."""


@dataclass(frozen=True, slots=True)
class VllmHook:
    """One function or class of vLLM that Paceline wraps, replaces or reads."""

    name: str
    target: str
    """`module:attribute.attribute`."""
    expected: tuple[str, ...]
    """For a callable: its parameters, in order. For a class: annotated fields it must have. For an
    `__init__`, or where `is_body` is set: names that the body must mention."""
    part: Literal[
        CorePart,
        "cpu_draws",
        "cpu_top_p",
        "short_warm_up",
        "warm_core",
        "seeded_generator",
        "thinking_budget",
        "min_tokens",
        "pipeline_stages",
        "undrafted_requests",
        "rust_front_end",
        "resting_draft",
        "plain_sampling",
        "early_stop",
        "deferred_drafts",
        "v2_draft_length",
        "trimmed_drafts",
        "trial_steps",
        "worker",
    ]
    """The part of Paceline that is switched off when the hook does not fit. `worker` is no part:
    its hooks are in modules that the engine core should not load, so only tests check them."""
    purpose: str
    remove_when: str
    upstream: str = ""
    """The change or issue that the hook concerns; if not given, the file of the target."""
    is_body: bool = False

    def __post_init__(self) -> None:
        if not self.upstream:
            module = self.target.partition(":")[0].removeprefix("vllm.")
            object.__setattr__(self, "upstream", f"{VLLM_FILES}/{module.replace('.', '/')}.py")


@dataclass(frozen=True, slots=True)
class HookFacts:
    """What one vLLM release has at the target of a hook."""

    kind: FactKind
    """`parameters` of a callable, in order; annotated `fields` of a class, without inherited ones;
    names that a body `mentions`, without its local variables; `missing`: the target is absent."""
    names: tuple[str, ...] = ()
    why_missing: str = ""


def is_judged_by_body(hook: VllmHook) -> bool:
    """Return whether the names in the body count, instead of the parameters."""
    return hook.is_body or hook.target.endswith(".__init__")


def judge_hook(hook: VllmHook, found: HookFacts) -> str:
    """Return "ok", or in words how the facts differ from what the register expects."""
    if found.kind == "missing":
        return f"{hook.target} is missing: {found.why_missing}"
    if found.kind == "parameters":
        if found.names == hook.expected:
            return "ok"
        expected = ", ".join(hook.expected)
        return f"{hook.target} takes ({', '.join(found.names)}), expected ({expected})"
    absent = ", ".join(name for name in hook.expected if name not in found.names)
    if not absent:
        return "ok"
    verb = "lacks" if found.kind == "fields" else "does not mention"
    return f"{hook.target} {verb} {absent}"
