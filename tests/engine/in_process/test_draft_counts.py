"""The governor counts drafts as vLLM does; no engine is started."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.settings import PluginSettings

pytestmark = pytest.mark.engine


def test_a_draft_that_broke_the_grammar_from_its_first_token_is_a_draft() -> None:
    """Two drafts: 3 tokens, all invalid, and 4 tokens, 1 invalid. vLLM's counters get the same."""
    from vllm.v1.spec_decode.metrics import SpecDecodingStats

    from paceline.runtime.engine.scheduler.governor_driver import GovernorDriver

    abilities = EngineAbilities(8, "ngram")
    controller = DraftLengthController(PluginSettings(), abilities)
    governor = GovernorDriver(controller, abilities, facts={})
    stats = SpecDecodingStats.new(8)
    idle = SimpleNamespace(requests={}, has_requests=lambda: False)
    invalid = {}
    for name, num_drafted, num_invalid, num_accepted in (("a", 3, 3, 0), ("b", 4, 1, 2)):
        invalid[name] = num_invalid
        governor.verified.append((name, num_drafted, num_accepted))
        stats.observe_draft(
            num_draft_tokens=num_drafted - num_invalid, num_accepted_tokens=num_accepted
        )
    governor.after_step(idle, SimpleNamespace(num_invalid_spec_tokens=invalid))
    state = governor.state()
    assert (state["num_drafts_total"], state["drafted_tokens_total"]) == (2, 3)
    assert stats.num_drafts == state["num_drafts_total"]
    assert stats.num_draft_tokens == state["drafted_tokens_total"]
