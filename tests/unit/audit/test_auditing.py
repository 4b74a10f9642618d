"""Audits of a server with known distributions: planted defects are found, right servers pass."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from paceline.testing.mock_vllm.model.sampling_defect import DefectKind, SamplingDefect
from paceline.workbench.audit.auditing import Audit, AuditConfig
from paceline.workbench.audit.checks.greedy import GreedyResult, check_greedy
from paceline.workbench.audit.checks.sampled import (
    FOUND_ABOVE,
    SampledCheck,
    SampledResult,
    sampling_cases,
)
from paceline.workbench.audit.output.document import render_document
from paceline.workbench.audit.output.lines import render_lines
from paceline.workbench.audit.prompts import PROMPTS, REPETITIVE
from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.truth import Truth
from paceline.workbench.audit.statistics.evidence import Evidence
from paceline.workbench.audit.statistics.noise import TYPICAL_NATS
from paceline.workbench.audit.statistics.power import smallest_bias
from paceline.workbench.audit.values import AuditError
from paceline.workbench.audit.verdict import Verdict
from unit.audit.simulated import (
    ChangingEveryToken,
    Counting,
    SimulatedTransport,
    WithoutDrafts,
    in_turn,
    simulated_server,
    unreachable,
)

QUICK = AuditConfig(smallest_bias=0.5, restart_seconds=0.0)

SMALLEST = {
    DefectKind.ACCEPT_ALL: 0.5,
    DefectKind.OFF_BY_ONE: 0.2,
    DefectKind.WRONG_DRAFT_PROBS: 1.0,
    DefectKind.RESIDUAL_FROM_TARGET: 1.0,
    DefectKind.TEMPERATURE_IGNORED: 0.5,
    DefectKind.FILTERS_IGNORED: 0.05,
    DefectKind.PENALTIES_IGNORED: 1.0,
    DefectKind.LOGIT_BIAS_IGNORED: 1.0,
    DefectKind.RANDOM_TEMPERATURE: 0.1,
    DefectKind.SEED_REUSE: 0.3,
    DefectKind.ARGMAX_FLIP: 0.02,
}
"""Share of the tokens (of the answers for a reused seed) that is always found."""


async def probed_server() -> Server:
    """A right server with everything known that it supports."""
    server = simulated_server()
    await server.probe()
    assert await server.probe_choices() + await server.probe_parameters() == []
    return server


async def audited(
    kind: DefectKind, share: float = 1.0, *, seed: int = 0, config: AuditConfig = QUICK
) -> Audit:
    audit = Audit(simulated_server(kind, share, seed=seed), config)
    await audit.run()
    return audit


@pytest.mark.parametrize("kind", SMALLEST)
async def test_every_planted_defect_is_found_at_its_smallest_size(kind: DefectKind) -> None:
    """The target bias is so small that a missed defect samples on until the time is over."""
    config = AuditConfig(smallest_bias=0.05, max_seconds=600)
    audit = await audited(kind, SMALLEST[kind], config=config)
    document = render_document(audit, {})
    assert document["verdict"] == "lossy", document["reasons"]
    assert "curl -s http://m/v1/completions" in document["smallest_failing_request"]["curl"]


@pytest.mark.slow
async def test_a_bonus_token_from_the_draft_is_found() -> None:
    """Bonus tokens follow long prefixes, which few answers share: it takes 10,000 tokens."""
    config = AuditConfig(smallest_bias=0.05, max_seconds=600)
    audit = await audited(DefectKind.BONUS_FROM_DRAFT, config=config)
    assert audit.decision().verdict is Verdict.LOSSY


@pytest.mark.parametrize("num_seeds", [5, pytest.param(20, marks=pytest.mark.slow)])
async def test_right_speculation_passes_with_many_seeds(num_seeds: int) -> None:
    """Drafts, rejections and residuals, all right; each check may err with probability 1/1000.

    The checks share a server and its true log-probabilities, which do not depend on the seed.
    """
    server = await probed_server()
    truth = Truth(server)
    for seed in range(num_seeds):
        result = SampledResult(Evidence(seed=seed))
        check = SampledCheck(server, truth, result, seed=100_000 * seed)
        await check.choose_prompts(PROMPTS, REPETITIVE)
        await check.run(sampling_cases(server.support), target_bias=1.0)
        assert not result.is_found, result.evidence.log_e
        assert result.bias is not None


async def test_a_right_server_is_lossless() -> None:
    audit = await audited(DefectKind.NO_DEFECT)
    assert audit.decision().verdict is Verdict.LOSSLESS, audit.decision().reasons


async def test_a_server_that_never_drafts_is_not_called_lossless() -> None:
    audit = Audit(Server(WithoutDrafts(), url="http://m"), QUICK)
    await audit.run()
    decision = audit.decision()
    assert decision.verdict is Verdict.UNDECIDED
    assert "no drafts were seen" in " ".join(decision.reasons)


async def test_drafts_that_only_the_metrics_count_are_seen() -> None:
    """None is accepted, so streams show one token per event."""
    audit = Audit(Server(Counting(), url="http://m"), QUICK)
    await audit.run()
    assert audit.decision().verdict is Verdict.LOSSLESS, audit.decision().reasons
    assert audit.num_drafted


async def test_a_parameter_that_the_server_applies_to_every_token_is_undecided() -> None:
    """The target bias is so small that it samples on until the fault is found."""
    config = AuditConfig(smallest_bias=0.05, max_seconds=600)
    audit = Audit(Server(ChangingEveryToken(temperature=0.7), url="http://m"), config)
    await audit.run()
    document = render_document(audit, {})
    assert document["verdict"] == "undecided"
    [reason] = document["reasons"]
    assert "which are never drafted, do not follow it either" in reason
    assert document["sampled"]["is_found"]
    assert not document["sampled"]["is_lossy"]
    assert document["known_issues"] == []


@pytest.mark.parametrize("num_before", [2, 15])
async def test_a_server_that_dies_leaves_a_report(num_before: int) -> None:
    """During the probe, and after it."""

    class Dying(SimulatedTransport):
        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if len(self.bodies) >= num_before:
                raise unreachable()
            return await super().post(path, body)

    audit = Audit(Server(Dying(), url="http://m"), QUICK)
    await audit.run()
    document = render_document(audit, {})
    assert document["verdict"] == "undecided"
    assert "cannot reach it" in " ".join(document["reasons"])
    assert any("undecided" in line for line in render_lines(document))


async def test_a_deadline_leaves_the_verdict_open_and_says_what_was_excluded() -> None:
    audit = await audited(
        DefectKind.NO_DEFECT, config=AuditConfig(smallest_bias=0.05, max_seconds=0.5)
    )
    decision = audit.decision()
    assert decision.verdict is Verdict.UNDECIDED
    assert "--max-seconds 0.5" in " ".join(decision.reasons)


async def test_a_cancelled_audit_reports_what_it_has() -> None:
    """Cancelled once it samples: the greedy part is there, the verdict is open."""
    sampling = asyncio.Event()

    def on_progress(text: str) -> None:
        if text.startswith("sampled answers:"):
            sampling.set()

    config = AuditConfig(smallest_bias=0.05)
    audit = Audit(simulated_server(), config, on_progress=on_progress)
    task = asyncio.create_task(audit.run())
    await sampling.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    document = render_document(audit, {})
    assert document["is_interrupted"]
    assert document["verdict"] == "undecided"
    assert document["greedy"]["num_tokens"] > 0
    assert document["sampled"]["num_drafted_tokens"] > 0


async def test_a_reference_finds_what_the_server_itself_hides() -> None:
    """A server that flips greedy tokens, judged by a right one."""
    audit = Audit(simulated_server(DefectKind.ARGMAX_FLIP, 0.1), QUICK, simulated_server())
    await audit.run()
    assert audit.decision().verdict is Verdict.LOSSY


class WithoutLogprobs(SimulatedTransport):
    """A server that shows token ids and no log-probabilities."""

    async def post(self, path, body):  # type: ignore[no-untyped-def]
        document = await super().post(path, body)
        for choice in document["choices"]:
            choice["logprobs"] = None
        return document


async def test_without_log_probabilities_nothing_is_known_about_noise() -> None:
    """The limits are those of bfloat16, and `logprobs: 0` is not sent."""
    transport = WithoutLogprobs(SamplingDefect(DefectKind.NO_DEFECT))
    server, reference = Server(transport, url="http://m"), simulated_server()
    await server.probe()
    await reference.probe()
    result = GreedyResult()
    num_probed = len(transport.bodies)
    await check_greedy(server, Truth(reference), PROMPTS, result, "auto")
    assert (result.noise_nats, result.number_format) == (None, None)
    assert result.near_tie_nats == 0.25
    assert result.is_finished
    assert not any("logprobs" in body for body in transport.bodies[num_probed:])


async def test_sampled_tokens_pay_for_noise_that_is_unknown() -> None:
    """The typical noise of bfloat16."""
    transport = WithoutLogprobs(SamplingDefect(DefectKind.NO_DEFECT))
    server = Server(transport, url="http://m")
    audit = Audit(server, AuditConfig(smallest_bias=2.0), simulated_server())
    await audit.run()
    evidence = audit.sampled.evidence
    assert evidence.noise_nats == TYPICAL_NATS["bfloat16"]
    assert audit.decision().verdict is Verdict.LOSSLESS, audit.decision().reasons


async def test_the_stated_bias_counts_the_noise() -> None:
    server = await probed_server()
    result = SampledResult(Evidence(noise_nats=0.1))
    check = SampledCheck(server, Truth(server), result, seed=0)
    await check.choose_prompts(PROMPTS, REPETITIVE)
    await check.run(sampling_cases(server.support), target_bias=1.0)
    tops = result.evidence.top_probs
    assert result.bias == smallest_bias(tops, found_above=FOUND_ABOVE, noise_nats=0.1)
    assert result.bias != smallest_bias(tops, found_above=FOUND_ABOVE)


async def test_without_log_probabilities_a_reference_is_needed() -> None:
    transport = WithoutLogprobs(SamplingDefect(DefectKind.NO_DEFECT))
    with pytest.raises(AuditError, match="--reference"):
        await Audit(Server(transport, url="http://m"), QUICK).run()


class WithoutIds(SimulatedTransport):
    """A server of the OpenAI API alone: text and log-probabilities by text."""

    async def post(self, path, body):  # type: ignore[no-untyped-def]
        own = {"return_token_ids", "return_tokens_as_token_ids", "echo"}
        if not isinstance(body["prompt"], str):
            raise AssertionError("token ids sent to a server that does not show them")
        document = await super().post(
            path, {name: value for name, value in body.items() if name not in own}
        )
        for choice in document["choices"]:
            choice |= {"token_ids": None, "prompt_token_ids": None}
        return document

    async def post_stream(self, path, body):  # type: ignore[no-untyped-def]
        [choice] = (await self.post(path, body))["choices"]
        parts = in_turn(choice["logprobs"]["tokens"])
        return [{"choices": [{"text": "", "logprobs": {"tokens": part}}]} for part in parts]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(DefectKind.NO_DEFECT, Verdict.LOSSLESS), (DefectKind.FILTERS_IGNORED, Verdict.LOSSY)],
)
async def test_without_token_ids_the_answers_own_log_probabilities_are_the_truth(
    kind: DefectKind, expected: Verdict
) -> None:
    audit = Audit(Server(WithoutIds(SamplingDefect(kind)), url="http://m"), QUICK)
    await audit.run()
    assert audit.decision().verdict is expected, audit.decision().reasons
