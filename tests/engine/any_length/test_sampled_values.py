"""Values that sampling returns or draws, at draft length 0, above 0, and at changing lengths.

Log-probabilities of every mode at any length; drawn tokens at length 0, where nothing but the
request's own generator decides. (Above 0 a draw also depends on the drafts;
`tests/engine/sampling` tests its distribution.)
"""

from __future__ import annotations

import random

import pytest

from engine.any_length.batch import Case, alone, hashed_target
from engine.any_length.runs import LENGTHS, batch_for, run

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("one_thread")]

MODES = ("raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits")


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("mode", MODES)
def test_logprobs_are_those_of_the_request_alone(mode: str, lengths: str) -> None:
    """Two requests with log-probabilities, one of them with a penalty, and one without."""
    cases = {
        "two": Case({"logprobs": 2}, hashed_target(1)),
        "penalised": Case({"logprobs": 4, "repetition_penalty": 1.5}, hashed_target(2)),
        "none": Case({}, hashed_target(3)),
    }
    wanted = {name: alone(case, logprobs_mode=mode) for name, case in cases.items()}
    outputs = run(batch_for(lengths, logprobs_mode=mode), cases, wanted, LENGTHS[lengths], seed=5)
    for name in ("two", "penalised"):
        found = outputs[name].logprobs
        assert len(found) == len(outputs[name].tokens) >= cases[name].num_tokens
        for position, expected in enumerate(wanted[name].logprobs):
            # The batch returns as many as its most demanding request asks for.
            assert expected == pytest.approx(
                {token: found[position][token] for token in expected}, abs=1e-4
            ), (name, position)


@pytest.mark.parametrize("lengths", ["no_speculation", "length_0"])
def test_seeded_draws_without_drafts_are_those_of_the_request_alone(lengths: str) -> None:
    """Three sampled requests with seeds and different parameters, one greedy one."""
    parameters = ({}, {"top_p": 0.8}, {"top_k": 5, "presence_penalty": 0.5})
    cases = {
        f"seeded-{i}": Case({"temperature": 0.8, "seed": 40 + i, **more}, hashed_target(i))
        for i, more in enumerate(parameters)
    } | {"greedy": Case({}, hashed_target(9))}
    wanted = {name: alone(case) for name, case in cases.items()}
    outputs = run(batch_for(lengths), cases, wanted, LENGTHS[lengths], seed=3)
    assert {name: output.tokens for name, output in outputs.items()} == {
        name: output.tokens for name, output in wanted.items()
    }


@pytest.mark.parametrize("lengths", LENGTHS)
def test_min_p_and_logit_bias_draw_the_tokens_of_the_request_alone(lengths: str) -> None:
    """Sampled requests with seeds, in steps with and without drafts for two greedy requests."""
    parameters = ({"min_p": 0.3}, {"min_p": 0.05, "logit_bias": {4: 2.5}}, {"min_p": 1e-6})
    cases = {
        f"sampled-{i}": Case({"temperature": 1.5, "seed": 40 + i, **more}, hashed_target(i))
        for i, more in enumerate(parameters)
    } | {f"greedy-{i}": Case({}, hashed_target(9 + i)) for i in range(2)}
    wanted = {name: alone(case) for name, case in cases.items()}
    without = alone(Case({"temperature": 1.5, "seed": 40}, hashed_target(0)))
    assert without.tokens != wanted["sampled-0"].tokens
    outputs = run(batch_for(lengths), cases, wanted, LENGTHS[lengths], seed=3)
    for name, output in wanted.items():
        assert outputs[name].tokens[: len(output.tokens)] == output.tokens, name


def test_a_request_that_is_still_prefilling_changes_no_state() -> None:
    """Its sampled tokens are discarded in 5 steps; its budget is 2 thinking tokens."""
    thinking = ((1,), (2,))
    case = Case({"thinking_token_budget": 2, "min_tokens": 5}, hashed_target(4), (5, 1))
    wanted = {"prefills": alone(case, thinking=thinking), "decodes": alone(Case({}, case.target))}
    batch = batch_for("changing", thinking=thinking)
    batch.step(add={"decodes": Case({}, case.target), "prefills": case}, prefilling=["prefills"])
    for _ in range(4):
        batch.step({"decodes": [3, 4]}, prefilling=["prefills"])
    rng = random.Random(0)
    while len(batch.outputs["prefills"].tokens) < case.num_tokens:
        batch.step({"prefills": [rng.randrange(24) for _ in range(rng.randrange(3))]})
    for name, output in batch.outputs.items():
        num_tokens = min(len(output.tokens), case.num_tokens)
        assert output.tokens[:num_tokens] == wanted[name].tokens[:num_tokens]
