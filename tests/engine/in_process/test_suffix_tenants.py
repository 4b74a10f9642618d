"""Under API keys, vLLM's suffix drafter drafts from a request's own text only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.in_process.test_scheduler_classes import make_scheduler, vllm_config
from paceline.runtime.engine.launch.speculation import choose_drafter

__all__ = ["vllm_config"]  # a fixture

pytestmark = pytest.mark.engine

SECRET = list(range(100, 140))
"""The answer of another tenant."""


def drafts_after_a_foreign_answer(*, separate_tenants: bool) -> list[int]:
    """What vLLM drafts for a request whose prompt ends like the answer of an earlier request."""
    from vllm.config import SpeculativeConfig
    from vllm.v1.spec_decode.suffix_decoding import SuffixDecodingProposer

    drafter = choose_drafter("suffix", "any/model", 8, separate_tenants=separate_tenants)
    assert drafter.speculative_config is not None
    defaults = {
        name: getattr(SpeculativeConfig, name)
        for name in SpeculativeConfig.__annotations__
        if name.startswith("suffix_decoding_")
    }
    config: Any = SimpleNamespace(
        speculative_config=SimpleNamespace(**defaults | dict(drafter.speculative_config)),
        model_config=SimpleNamespace(max_model_len=512),
    )
    proposer = SuffixDecodingProposer(config)
    propose(proposer, "acme", prompt=[1, 2, 3], sampled=SECRET)
    return propose(proposer, "beta", prompt=[7, *SECRET[:9]], sampled=SECRET[9:10])


def propose(proposer: Any, name: str, prompt: list[int], sampled: list[int]) -> list[int]:
    """One step with this request alone."""
    tokens = np.zeros((1, 512), dtype=np.int32)
    text = [*prompt, *sampled]
    tokens[0, : len(text)] = text
    batch = SimpleNamespace(
        req_ids=[name],
        req_id_to_index={name: 0},
        num_tokens_no_spec=[len(text)],
        num_prompt_tokens=[len(prompt)],
        token_ids_cpu=tokens,
    )
    (drafted,) = proposer.propose(8, batch, [sampled])
    return list(drafted)


def test_without_keys_a_request_is_drafted_for_from_the_answers_of_others() -> None:
    """The leak itself: without it, the next test could not fail."""
    assert drafts_after_a_foreign_answer(separate_tenants=False) == SECRET[10:18]


def test_with_keys_no_draft_comes_from_the_answer_of_another_tenant() -> None:
    assert drafts_after_a_foreign_answer(separate_tenants=True) == []


def test_a_speculative_config_of_the_operators_own_is_refused_if_it_shares_answers(
    vllm_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it comes from vLLM's own arguments or its configuration file."""
    monkeypatch.setitem(vllm_config.additional_config["paceline"], "separate_tenants", True)
    monkeypatch.setattr(vllm_config.speculative_config, "method", "suffix")
    with pytest.raises(ValueError, match="suffix_decoding_max_cached_requests is 10000"):
        make_scheduler(vllm_config, is_async=False)
