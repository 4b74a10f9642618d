"""The mock server with scripted acceptance: the oracle of a trace against its known truth.

Real sockets in virtual time, so that the result does not depend on the machine. The truth is
computed here from the mock's times and the acceptance, with no code of either side.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from paceline.foundation.shifting_trace import ShiftingTrace
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from paceline.testing.mock_vllm.model.speculation import Speculation
from paceline.workbench.bench.trace.figures import TraceFigures, compute_figures
from paceline.workbench.bench.trace.measure import TraceMeasurement, measure_trace
from paceline.workbench.bench.trace.oracle import EarlierRun, compare
from unit.bench.trace.runs import closed, make_trace, measurement, scripted
from unit.bench.trace.virtual_time import now_s, run_virtually

OUTPUT_TOKENS = 12
EASY, HARD = 0.97, 0.1
TRACE = make_trace(
    [scripted("easy", EASY, output=OUTPUT_TOKENS), scripted("hard", HARD, output=OUTPUT_TOKENS)],
    [
        closed("easy", 4, "easy", 30.0),
        closed("easy, crowded", 8, "easy", 30.0),
        closed("hard, crowded", 8, "hard", 30.0),
    ],
)
TRUTHS = (("easy", 4, EASY), ("easy, crowded", 8, EASY), ("hard, crowded", 8, HARD))
"""Name, concurrency and acceptance of each phase."""
LENGTHS = (0, 2, 4)
STEP_S, DRAFT_S, VERIFY_S = 0.2, 0.02, 0.004
"""Of the mock server: so slow that the milliseconds of its timer do not count."""


def settings(draft_length: int) -> MockVllmSettings:
    """The rates of the server are wrong on purpose: those of the requests count."""
    draft_times: dict[str, Any] = {}
    if draft_length:
        draft_times = {
            "draft_ms": 1e3 * DRAFT_S,
            "verify_ms": 1e3 * VERIFY_S,
            "speculation": Speculation(draft_length, (0.5,) * draft_length),
        }
    return MockVllmSettings(tpot_ms=1e3 * STEP_S, prefill_tokens_per_s=1e9, **draft_times)


def run_trace(trace: ShiftingTrace, draft_length: int, **config: Any) -> TraceMeasurement:
    async def scenario() -> TraceMeasurement:
        async with MockVllm(settings(draft_length)) as server:
            run = measurement(trace, url=server.url, **config)
            await measure_trace(run, None, lambda phase: None, now_s)
            return run

    return run_virtually(scenario())


@functools.cache
def figures(draft_length: int) -> TraceFigures:
    return compute_figures(run_trace(TRACE, draft_length))


def true_rate(concurrency: int, acceptance: float, draft_length: int) -> float:
    """Output tokens per second.

    The first token of an answer has no step. A step yields x + 1 tokens with probability
    acceptance^x (1 - acceptance), or draft_length + 1 with acceptance^draft_length.
    """
    chances = [acceptance**x * (1 - acceptance) for x in range(draft_length)]
    chances.append(acceptance**draft_length)

    @functools.cache
    def steps(left: int) -> float:
        if left <= 0:
            return 0.0
        return 1.0 + sum(p * steps(left - x - 1) for x, p in enumerate(chances))

    step_s = STEP_S + draft_length * (DRAFT_S + concurrency * VERIFY_S)
    return concurrency * OUTPUT_TOKENS / (steps(OUTPUT_TOKENS - 1) * step_s)


def test_the_oracle_of_the_mock_is_its_truth_within_two_percent() -> None:
    """Drafts pay in the easy phases and do not in the hard one."""
    truths = {
        name: {length: true_rate(concurrency, acceptance, length) for length in LENGTHS}
        for name, concurrency, acceptance in TRUTHS
    }
    best = {name: max(rates, key=lambda k: rates[k]) for name, rates in truths.items()}
    assert len(set(best.values())) > 1  # else the trace would not test an oracle
    others = [
        EarlierRun(
            f"K={length}",
            {phase.name: phase.output_tokens_per_s or 0.0 for phase in figures(length).phases},
        )
        for length in LENGTHS
    ]
    for length in LENGTHS:
        found = compare(figures(length), others)
        assert found is not None
        for phase in found.phases:
            assert phase.oracle == f"K={best[phase.name]}"
            oracle = truths[phase.name][best[phase.name]]
            assert phase.oracle_tokens_per_s == pytest.approx(oracle, rel=0.02)


@pytest.mark.parametrize("length", LENGTHS)
def test_every_length_yields_its_true_rate_within_two_percent(length: int) -> None:
    """Not in the last phase: answers of the phase before end in it, at their acceptance."""
    for phase, (_, concurrency, acceptance) in zip(
        figures(length).phases[:2], TRUTHS, strict=False
    ):
        truth = true_rate(concurrency, acceptance, length)
        assert phase.output_tokens_per_s == pytest.approx(truth, rel=0.02)


def test_the_acceptance_of_every_phase_is_the_scripted_one() -> None:
    """In the first phases; answers of the second one end in the third."""
    for phase, (_, _, acceptance) in zip(figures(4).phases[:2], TRUTHS, strict=False):
        fractions = phase.speculation.accepted_per_position_fraction
        assert fractions is not None
        survival = [acceptance**depth for depth in (1, 2, 3, 4)]
        assert fractions == pytest.approx(survival, abs=0.03)
    assert not [w for w in figures(4).warnings if w.id == "acceptance"]
