"""The distribution of sampled answers under a grammar, when the draft model knows no grammar.

The draft model is made to draw a token that the grammar allows or one that it forbids, evenly. What
follows a forbidden token then decides half of the answers.
"""

from __future__ import annotations

from typing import Any

import pytest
from losslessness.checks import SamplingCase
from losslessness.engine_host import EngineHost
from losslessness.sampling import GTest, Prefix, by_prefix, g_test
from losslessness.telling_prompts import bundled_pair

pytestmark = pytest.mark.engine

FAULTS = "losslessness.early_stops"
PROMPT = "value = 1"
GRAMMAR = "[0-9]{6}"
ALLOWED, FORBIDDEN = "0", "a"
RULES = [1, 3, 5]
"""They verify one to three tokens that the draft model draws evenly from two."""
NUM_SAMPLES = 800
MIN_SAMPLES = 40
PASSES = 1e-3
FAILS = 1e-6
SAMPLING = SamplingCase(temperature=1.0, top_p=1.0)


def draw(engine: EngineHost, num_samples: int, **parameters: Any) -> list[dict[str, Any]]:
    """Answers of four tokens, of which the last three may be drafted."""
    [prompt] = engine.tokenize([PROMPT])
    return engine.generate(
        [prompt] * num_samples,
        each=[{"structured_outputs": {"regex": GRAMMAR}} for _ in range(num_samples)],
        max_tokens=4,
        **SAMPLING.arguments(),
        **parameters,
    )


def masked_distributions(engine: EngineHost) -> dict[Prefix, dict[int, float]]:
    """What the target samples from after each answer so far, by requests without drafts."""
    expected: dict[Prefix, dict[int, float]] = {}
    undrafted = {"paceline": {"max_draft_length": 0}}
    for answer in draw(engine, NUM_SAMPLES // 2, logprobs=20, extra_args=undrafted):
        tokens = answer["token_ids"]
        for position, logprobs in enumerate(answer["logprobs"]):
            shares = SAMPLING.distribution(logprobs)
            allowed = {token: share for token, share in shares.items() if share > 0.0}
            expected.setdefault(tuple(tokens[:position]), allowed)
    return expected


def test_sampled_answers_under_a_grammar_have_the_masked_distribution() -> None:
    """Those of vLLM's own synchronous scheduler, which drops forbidden drafts, have another one."""
    with EngineHost(
        bundled_pair(draft_sample_method="probabilistic"),
        policy={"policy": "fixed"},
        fault=f"{FAULTS}:vary_rules",
    ) as engine:
        [[allowed], [forbidden]] = engine.tokenize([ALLOWED, FORBIDDEN])
        engine.call(f"{FAULTS}:keep_rules", RULES)
        engine.call(f"{FAULTS}:draft_evenly", [allowed, forbidden])
        expected = masked_distributions(engine)

        def test() -> GTest:
            outputs = [answer["token_ids"] for answer in draw(engine, NUM_SAMPLES)]
            groups = by_prefix(outputs, first_position=1, min_samples=MIN_SAMPLES)
            known = {prefix: counts for prefix, counts in groups.items() if prefix in expected}
            return g_test(known, {prefix: expected[prefix] for prefix in known})

        right = test()
        steps = engine.call(f"{FAULTS}:take_steps")
        engine.call(f"{FAULTS}:drop_forbidden")
        wrong = test()
        state = engine.state()
    assert right.num_samples > NUM_SAMPLES / 2
    assert right.p_value > PASSES, right
    assert wrong.p_value < FAILS, wrong
    assert len({step["draft_length"] for step in steps}) > 2
    assert state["policy_errors_total"] == 0
