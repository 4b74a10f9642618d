"""A seeded request whose prompt is prefilled in pieces, in the real engine."""

from __future__ import annotations

import pytest
from losslessness.engine_host import EngineHost

from paceline.demo import target_path
from paceline.runtime.engine.fixes.seeded_generator import discarded_generators

pytestmark = pytest.mark.engine


def test_a_seeded_request_survives_being_prefilled_in_pieces() -> None:
    """200 prompt tokens at 64 a step; stock vLLM's engine fails at the first piece."""
    arguments = {
        "model": str(target_path()),
        "max_model_len": 512,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 64,
        "enable_prefix_caching": False,
    }
    prompts = [list(range(100, 300))] * 2
    with EngineHost(arguments, policy=None) as engine:
        first, second = (
            engine.generate(prompts, temperature=1.0, seed=7, max_tokens=12, ignore_eos=True)
            for _ in range(2)
        )
    tokens = [[answer["token_ids"] for answer in answers] for answers in (first, second)]
    assert [len(answer) for answer in tokens[0]] == [12, 12]
    assert tokens[0] == tokens[1]


def test_only_rows_that_are_thrown_away_are_hidden() -> None:
    generators = {0: "a", 2: "b", 3: "c"}
    assert discarded_generators(generators, [True, True, False, True]) == {0: "a", 3: "c"}
