"""SGLang's rule: the lengths that its averages give, worked out from its source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.governor.peers import sglang_ema
from benchmarks.governor.peers.sglang_ema import SglangEmaPolicy
from paceline import check_policy
from paceline.runtime.governor.values import EngineLoad, StepSample


def lengths(policy: SglangEmaPolicy, num_requests: int, accepted: int, *, steps: int) -> list[int]:
    """The planned lengths while every request accepts at most `accepted` tokens."""
    planned = []
    for _ in range(steps):
        load = EngineLoad(num_requests, 0, 0, 0, max_draft_length=8)
        planned.append(policy.plan(load).draft_length)
        drafted = (planned[-1],) * num_requests if planned[-1] else ()
        policy.observe(
            StepSample(
                num_requests=num_requests,
                requested_draft_length=planned[-1],
                drafted=drafted,
                accepted=tuple(min(accepted, length) for length in drafted),
                verified_draft_tokens=sum(drafted),
                draft_length=planned[-1],
                prefill_tokens=0,
                context_tokens=0,
                duration_s=None,
                is_clean=False,
            )
        )
    return planned


@pytest.mark.parametrize(
    ("num_requests", "accepted", "expected"),
    [
        # All are accepted. 3 - 0.8 ** 15 = 2.96 is above 2.5. Five steps later 5 - 2.04 * 0.8 ** 5
        # = 4.33 is not above 4.5; after ten 5 - 2.04 * 0.8 ** 10 = 4.78 is.
        (4, 8, [3] * 15 + [5] * 10 + [7] * 5),
        # 2 * 0.8 ** 15 = 0.07 accepted is below 1 - 0.5 - 0.25.
        (4, 0, [3] * 15 + [1] * 10),
        # The same is below 0.5 for both shorter lengths; at 0 the next choice is always 1.
        (8, 0, [3] * 15 + [0] * 5 + [1] * 5),
        # One length: 2 is above 0.5 and not above 2.5.
        (8, 2, [3] * 25),
        # Begins at the middle one of its lengths, (0, 1), and with an average of 0.
        (32, 1, [1] * 25),
        (32, 0, [1] * 15 + [0] * 5 + [1] * 5),
        (64, 8, [0] * 25),
    ],
)
def test_each_range_of_batch_sizes_has_its_lengths(
    num_requests: int, accepted: int, expected: list[int]
) -> None:
    found = lengths(SglangEmaPolicy(8), num_requests, accepted, steps=len(expected))
    assert found == expected


def test_a_range_learns_nothing_from_other_batch_sizes() -> None:
    policy = SglangEmaPolicy(8)
    lengths(policy, 8, 0, steps=25)
    assert lengths(policy, 4, 2, steps=1) == [3]


def test_the_policy_keeps_its_contract() -> None:
    check_policy(sglang_ema.POLICY)


def test_the_folder_registers_the_policy() -> None:
    """As for an arm of the interleaved trace: the folder is on PYTHONPATH."""
    program = "import paceline; print(paceline.create_policy('sglang-ema', max_draft_length=8))"
    source = Path(sys.modules["paceline"].__file__ or "").parents[1]
    folder = Path(sglang_ema.__file__).parent
    found = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={"PYTHONPATH": f"{folder}:{source}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "sglang_ema.SglangEmaPolicy" in found.stdout
