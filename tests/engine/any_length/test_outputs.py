"""Everything that changes logits, at draft length 0, above 0, and at changing lengths.

Five greedy requests with one sampling feature or none join, leave and swap rows in a batch of an
engine that speculates. Each must produce the tokens that vLLM produces for the same request alone,
without speculation. `docs/sampling-and-draft-lengths.md` has the table of features.
"""

from __future__ import annotations

import functools

import pytest

from engine.any_length.batch import VOCABULARY, Case, Output, Target, alone, hashed_target
from engine.any_length.runs import LENGTHS, batch_for, run

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("one_thread")]

SEEDS = [0, pytest.param(1, marks=pytest.mark.slow)]
"""Of the target's logits, the drafts and the order in which requests join and swap."""
THINK, END, END_AGAIN = 1, 2, 3


def one_of_four(output: tuple[int, ...]) -> list[int]:
    """A grammar that allows four tokens, which depend on the position."""
    return [(3 * len(output) + 5 * i + 1) % VOCABULARY for i in range(4)]


def cases_with(feature: str, seed: int) -> dict[str, Case]:
    """Three requests with the feature and two without."""

    def target(row: int, **favoured: float) -> Target:
        bias = {int(name.removeprefix("t")): value for name, value in favoured.items()}
        return hashed_target(100 * seed + row, bias)

    made: list[Case] = []
    for row in range(3):
        eos_often = target(row, t0=3.0)
        three_often = target(row, t3=2.0, t4=2.0)
        thinks_often = target(row, t1=2.5, t2=1.0 if row % 2 else -1.0)
        made.append(
            {
                "min_tokens": Case({"min_tokens": 4 + 3 * row}, eos_often),
                "repetition_penalty": Case({"repetition_penalty": 1.5 + row}, three_often),
                "frequency_penalty": Case({"frequency_penalty": 0.5 + row / 2}, three_often),
                "presence_penalty": Case({"presence_penalty": 0.5 + row / 2}, three_often),
                "bad_words": Case({}, three_often, bad_words=((3,), (4, 5), (4, 4), (7, 8, 9))),
                "allowed_token_ids": Case({"allowed_token_ids": [2, 3, 5, 7, row]}, target(row)),
                "grammar": Case({}, target(row), grammar=one_of_four),
                "thinking_budget": Case({"thinking_token_budget": 2 + row}, thinks_often),
                "thinking_budget_from_prompt": Case(
                    {"thinking_token_budget": 1 + 3 * row}, thinks_often, prompt=(5, THINK, 6)
                ),
                "thinking_budget_0": Case({"thinking_token_budget": 0}, thinks_often),
                "logit_bias": Case({"logit_bias": {4: 3.0, row: -5.0}}, three_often),
                "all_at_once": Case(
                    {
                        "min_tokens": 6,
                        "repetition_penalty": 1.2,
                        "thinking_token_budget": 2 + row,
                    },
                    target(row, t0=1.5, t1=2.5),
                    bad_words=((4,),),
                ),
            }[feature]
        )
    return {f"featured-{i}": case for i, case in enumerate(made)} | {
        f"plain-{i}": Case({}, target(50 + i)) for i in range(2)
    }


FEATURES = (
    "min_tokens",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "bad_words",
    "allowed_token_ids",
    "grammar",
    "thinking_budget",
    "thinking_budget_from_prompt",
    "thinking_budget_0",
    "logit_bias",
    "all_at_once",
)
ENDS = {"one token": (END,), "two tokens": (END, END_AGAIN)}


@functools.cache
def expected(feature: str, seed: int, end: tuple[int, ...]) -> dict[str, Output]:
    """What each request produces alone, without speculation."""
    cases = cases_with(feature, seed)
    return {name: alone(case, thinking=((THINK,), end)) for name, case in cases.items()}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("feature", FEATURES)
def test_the_output_is_that_of_the_request_alone(feature: str, lengths: str, seed: int) -> None:
    ends = ENDS.values() if "thinking" in feature else [(END,)]
    for end in ends:
        wanted = expected(feature, seed, end)
        batch = batch_for(lengths, thinking=((THINK,), end))
        outputs = run(batch, cases_with(feature, seed), wanted, LENGTHS[lengths], seed=seed)
        for name, output in outputs.items():
            tokens = wanted[name].tokens
            assert output.tokens[: len(tokens)] == tokens, (name, end)


@pytest.mark.parametrize("lengths", ["no_speculation", "length_0"])
def test_a_budget_ends_with_its_request(lengths: str) -> None:
    """A request without a budget moves to the row of one with a budget of 1, and thinks on."""
    thinking = ((THINK,), (END,))
    thinks_often = hashed_target(1, {THINK: 3.0, END: -9.0})
    cases = {
        "budgeted": Case({"thinking_token_budget": 1}, thinks_often),
        "unlimited": Case({}, thinks_often, prompt=(5, THINK, 8)),
    }
    wanted = alone(cases["unlimited"], thinking=thinking).tokens
    batch = batch_for(lengths, thinking=thinking)
    batch.step(add=cases)
    batch.step(remove=["budgeted"])
    while len(batch.outputs["unlimited"].tokens) < len(wanted):
        batch.step()
    assert wanted.count(THINK) > 1
    assert batch.outputs["unlimited"].tokens == wanted
