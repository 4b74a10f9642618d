"""The hook register against the installed vLLM, and the messages for mismatches.

Importing vLLM takes seconds and starts nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from paceline.runtime.engine.compat.checks import check_hook, check_hooks, unfit_for
from paceline.runtime.engine.compat.hook import VllmHook
from paceline.runtime.engine.compat.register import REGISTER

pytestmark = pytest.mark.engine

BY_NAME = {hook.name: hook for hook in REGISTER}


@pytest.mark.parametrize("hook", REGISTER, ids=lambda hook: hook.name)
def test_the_installed_vllm_has_every_hook(hook: VllmHook) -> None:
    """Name, module and parameters are as the register expects."""
    assert check_hook(hook) == "ok"


@pytest.mark.parametrize(
    ("hook", "change", "found"),
    [
        (
            "schedule",
            {"expected": ("self", "renamed")},
            "takes .self, throttle_prefills., expected",
        ),
        ("schedule", {"target": "vllm.v1.core.sched.scheduler:Scheduler.gone"}, "is missing"),
        ("schedule", {"target": "vllm.gone:Scheduler"}, "is missing"),
        ("scheduler_output", {"expected": ("draft_plan",)}, "lacks draft_plan"),
        ("request_attributes", {"expected": ("mood",)}, "does not mention mood"),
    ],
)
def test_a_mismatch_says_what_was_found_and_what_was_expected(
    hook: str, change: dict[str, object], found: str
) -> None:
    changed = replace(BY_NAME[hook], **change)  # type: ignore[arg-type]
    assert re.search(found, check_hook(changed))


def test_a_part_steps_aside_only_for_its_own_hooks() -> None:
    """A broken sampler hook leaves the governor on, and the reverse."""
    found = {**check_hooks(), **check_hooks("worker"), "expand_kernel": "is missing"}
    assert unfit_for("governor", found) == ""
    assert unfit_for("cpu_sampler", found) == "expand_kernel: is missing"


def test_the_engine_core_does_not_look_at_the_workers_modules() -> None:
    """Importing them takes seconds, so they are checked on request; other parts stay out of it."""
    assert "worker_reads_length" not in check_hooks()
    assert check_hooks("worker") == dict.fromkeys(
        (
            "v2_captured_graphs",
            "v2_ngram_class",
            "worker_reads_length",
            "v2_worker_reads_length",
        ),
        "ok",
    )
    assert set(check_hooks("cpu_top_k")) == {"apply_top_k_only"}


def test_every_hook_says_why_it_is_there_and_when_it_goes() -> None:
    """The documentation of the hooks is generated from the register."""
    for hook in REGISTER:
        assert hook.purpose
        assert hook.remove_when
        assert hook.upstream.startswith("https://")
    assert len(BY_NAME) == len(REGISTER)


def test_importing_the_engine_package_does_not_import_vllm() -> None:
    """Nor does the module of the plugin, which vLLM's processes import early."""
    program = (
        "import sys, paceline.engine, paceline.runtime.engine.plugin;"
        "import paceline.runtime.engine.compat.checks;"
        "sys.exit('vllm' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
