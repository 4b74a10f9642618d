"""A fault in tokens without drafts too is not speculation's; one in drafted tokens only is."""

from __future__ import annotations

import pytest

from paceline.testing.mock_vllm.model.sampling_defect import DefectKind, SamplingDefect
from paceline.workbench.audit.checks.acceptance import AcceptanceResult
from paceline.workbench.audit.checks.features import FeatureResults
from paceline.workbench.audit.checks.greedy import GreedyResult
from paceline.workbench.audit.checks.sampled import PLAIN_CASES, SampledCheck, SampledResult
from paceline.workbench.audit.prompts import PROMPTS, REPETITIVE
from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.truth import Truth
from paceline.workbench.audit.statistics.evidence import Evidence
from paceline.workbench.audit.verdict import Verdict, decide
from unit.audit.simulated import ChangingEveryToken, SimulatedTransport

_NUM_SEEDS = 10


async def found_and_controlled(server: Server, truth: Truth, seed: int) -> SampledResult:
    """Sampled until the fault is found, however small, and drawn again without drafts."""
    result = SampledResult(Evidence(seed=seed))
    check = SampledCheck(server, truth, result, seed=100_000 * seed)
    await check.choose_prompts(PROMPTS, REPETITIVE)
    await check.run(PLAIN_CASES, target_bias=0.05)
    assert result.is_found, seed
    await check.control()
    return result


def verdict_of(result: SampledResult) -> Verdict:
    greedy = GreedyResult(num_tokens=400, number_format="float32", is_finished=True)
    others = FeatureResults(), AcceptanceResult()
    return decide(greedy, result, *others, target_bias=0.2, saw_drafts=True).verdict


@pytest.mark.parametrize(
    "transport",
    [
        ChangingEveryToken(min_p=0.2),
        ChangingEveryToken(temperature=0.7),
    ],
)
async def test_a_parameter_that_the_server_applies_to_every_token_is_undecided_with_ten_seeds(
    transport: SimulatedTransport,
) -> None:
    """The seeds share a server and its true log-probabilities."""
    server = Server(transport, url="http://m")
    await server.probe()
    await server.probe_choices()
    await server.probe_parameters()
    truth = Truth(server)
    results = [await found_and_controlled(server, truth, seed) for seed in range(_NUM_SEEDS)]
    assert [verdict_of(one) for one in results] == [Verdict.UNDECIDED] * _NUM_SEEDS


async def test_the_control_draws_single_tokens_at_places_of_drafted_ones() -> None:
    transport = SimulatedTransport(SamplingDefect(DefectKind.ACCEPT_ALL))
    server = Server(transport, url="http://m")
    await server.probe()
    await server.probe_choices()
    await server.probe_parameters()
    result = SampledResult(Evidence())
    check = SampledCheck(server, Truth(server), result, seed=0)
    await check.choose_prompts(PROMPTS, REPETITIVE)
    await check.run(PLAIN_CASES, target_bias=0.05)
    num_before, log_e = len(transport.bodies), result.evidence.log_e
    await check.control()
    bodies = transport.bodies[num_before:]
    places = {
        (*result.prompt_ids[sample.prompt], *sample.tokens[:end])
        for sample in result.samples
        for end in range(1, len(sample.tokens))
    }
    assert bodies
    assert all(body["max_tokens"] == 1 for body in bodies)
    assert {tuple(body["prompt"]) for body in bodies} <= places
    assert {body["temperature"] for body in bodies} == {1.0, 0.6}
    assert len({body["cache_salt"] for body in bodies}) == len(bodies)
    assert sum(body["n"] for body in bodies) == result.control.num_draws
    assert result.evidence.log_e == log_e
    assert verdict_of(result) is Verdict.LOSSY
