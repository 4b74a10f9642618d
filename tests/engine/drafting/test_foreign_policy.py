"""A policy of another package, registered by an entry point, inside the real vLLM engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts
from unit.policy_registry.foreign_package import install

from paceline.demo import draft_path, target_path

pytestmark = pytest.mark.engine


def test_a_policy_of_another_package_chooses_the_draft_length(tmp_path: Path) -> None:
    """Named in additional_config with its parameters: its plans are drafted, without an error.

    Then an operator changes its parameters, and the policy itself, at run time.
    """
    install(tmp_path)
    llm = {
        "model": str(target_path()),
        "dtype": "float32",
        "max_model_len": 512,
        "max_num_seqs": 16,
        "speculative_config": {
            "method": "draft_model",
            "model": str(draft_path()),
            "num_speculative_tokens": 4,
        },
    }
    policy = {"policy": "stepped", "policy_parameters": {"hold": 1, "highest": 2}}
    with EngineHost(llm, policy=policy, packages=tmp_path) as engine:
        prompts = engine.tokenize(stdlib_prompts(2))
        engine.generate(prompts, temperature=0.0, max_tokens=32, ignore_eos=True)
        state = engine.state()
        assert state["policy"] == "stepped"
        assert state["reason"].startswith("stepped: ")
        assert state["policy_errors_total"] == state["safe_plan_steps_total"] == 0
        # Lengths 0, 1, 2 in turn: no draft is longer than 2, and some have 2.
        assert 0 < state["drafted_tokens_total"] < 2 * state["num_drafts_total"]
        refused = engine.control(op="set", policy="stepped", policy_parameters={"hold": 0})
        assert "hold is 0; it must be a whole number, 1 or more" in refused["error"]
        for command in (
            {"policy": "stepped", "policy_parameters": {"hold": 5}},
            {"policy": "plain"},
        ):
            assert engine.control(op="set", **command)["ok"]
            engine.generate(prompts, temperature=0.0, max_tokens=8, ignore_eos=True)
            assert engine.state()["policy"] == command["policy"]
        assert engine.state()["policy_errors_total"] == 0
