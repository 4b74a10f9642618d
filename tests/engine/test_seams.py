"""The seam register against the installed vLLM, and what a mismatch looks like.

Importing vLLM takes seconds and starts nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from paceline.engine.seam import Seam
from paceline.engine.seam_register import REGISTER
from paceline.engine.seams import check_seam, check_seams, unfit_for

pytestmark = pytest.mark.engine

BY_NAME = {seam.name: seam for seam in REGISTER}


@pytest.mark.parametrize("seam", REGISTER, ids=lambda seam: seam.name)
def test_the_installed_vllm_has_every_seam(seam: Seam) -> None:
    """Name, place and parameters are as the register says."""
    assert check_seam(seam) == "ok"


@pytest.mark.parametrize(
    ("seam", "change", "found"),
    [
        (
            "schedule",
            {"expected": ("self", "renamed")},
            "takes .self, throttle_prefills., expected",
        ),
        ("schedule", {"target": "vllm.v1.core.sched.scheduler:Scheduler.gone"}, "is not there"),
        ("schedule", {"target": "vllm.gone:Scheduler"}, "is not there"),
        ("scheduler_output", {"expected": ("draft_plan",)}, "lacks draft_plan"),
        ("request_attributes", {"expected": ("mood",)}, "does not mention mood"),
    ],
)
def test_a_mismatch_is_put_in_words(seam: str, change: dict[str, object], found: str) -> None:
    """What is there, and what was expected."""
    changed = replace(BY_NAME[seam], **change)  # type: ignore[arg-type]
    assert re.search(found, check_seam(changed))


def test_a_part_steps_aside_only_for_its_own_seams() -> None:
    """A broken sampler seam leaves the steering fit, and the other way round."""
    found = {**check_seams(), **check_seams("worker"), "expand_kernel": "is not there"}
    assert unfit_for("steering", found) == ""
    assert unfit_for("sampler_repair", found) == "expand_kernel: is not there"


def test_the_engine_core_does_not_look_at_the_workers_modules() -> None:
    """Loading them costs seconds; named, they are looked at. Other parts cost nothing either."""
    assert "worker_reads_length" not in check_seams()
    assert check_seams("worker") == {"worker_reads_length": "ok", "v2_worker_reads_length": "ok"}
    assert set(check_seams("top_k_repair")) == {"apply_top_k_only"}


def test_every_seam_says_why_it_is_there_and_when_it_goes() -> None:
    """The register is the documentation."""
    for seam in REGISTER:
        assert seam.purpose
        assert seam.remove_when
        assert seam.upstream.startswith("https://")
    assert len(BY_NAME) == len(REGISTER)


def test_importing_the_engine_package_does_not_import_vllm() -> None:
    """Nor does the plugin's module: vLLM's processes load it early."""
    program = (
        "import sys, paceline.engine, paceline.engine.plugin, paceline.engine.seams;"
        "sys.exit('vllm' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
