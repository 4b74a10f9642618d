"""What vLLM accepts of a head's drafts is what `paceline draft train` measures of it offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from losslessness.engine_host import EngineHost

from engine.drafting.test_drafters import GREEDY, PROMPTS, llm
from paceline.demo import target_path
from paceline.foundation.models.heads.folder import head_config_of, read_head, write_head
from paceline.foundation.models.heads.head import Eagle3Head
from paceline.foundation.models.heads.initial import initial_head
from paceline.foundation.models.heads.measuring import measure_head
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_model
from paceline.foundation.models.progress import draft_progress
from paceline.foundation.models.values import Answer, Sampling

pytestmark = pytest.mark.engine

DRAFT_LENGTH, NUM_TOKENS = 3, 40
COUNTED = ("vllm:spec_decode_num_drafts", "vllm:spec_decode_num_accepted_tokens")


def repeating_head(target: Any) -> Eagle3Head:
    """Random, but the hidden states that it reads are those of the target, mostly of its last layer
    but one: so it repeats the last token now and then."""
    config = target.config
    tokens = [token for token in range(config.vocab_size) if token % 4 != 3]
    head = initial_head(head_config_of(config, len(tokens)), target, tokens, torch.ones(()), seed=1)
    size = config.hidden_size
    with torch.no_grad():
        for parameter in head.midlayer.parameters():
            if parameter.ndim == 2:
                parameter.mul_(0.2)
        shares = [0.2 * torch.eye(size), 0.2 * torch.eye(size), torch.eye(size)]
        head.fc.weight.copy_(torch.cat(shares, dim=1))
    return head


def test_served_and_measured_acceptance_are_equal(tmp_path: Path) -> None:
    """Greedy, one request at a time. The head reads three layers of the target, and drafts from
    three quarters of its vocabulary."""
    target = load_model(target_path(), torch.float32, torch.device("cpu"))
    head = tmp_path / "head"
    head.mkdir()
    write_head(repeating_head(target), head)
    speculative = {"method": "eagle3", "model": str(head), "num_speculative_tokens": DRAFT_LENGTH}
    fixed = {"policy": "fixed", "draft_length": DRAFT_LENGTH}
    with EngineHost(llm(target_path(), speculative), policy=fixed) as host:
        prompts = host.tokenize(PROMPTS)
        longer = NUM_TOKENS + DRAFT_LENGTH - 1
        texts = host.generate(prompts, **GREEDY | {"max_tokens": longer})
        before = host.metrics()
        for prompt in prompts:
            host.generate([prompt], **GREEDY)
        served = [host.metrics()[name] - before[name] for name in COUNTED]
    answers = [
        Answer("", str(index), Sampling(0.0), tuple(prompt), tuple(text["token_ids"]), NUM_TOKENS)
        for index, (prompt, text) in enumerate(zip(prompts, texts, strict=True))
    ]
    with draft_progress() as progress:
        measured = measure_head(
            target,
            read_head(head),
            answers,
            max_draft_length=DRAFT_LENGTH,
            progress=progress,
            stop=StopRequest(),
        )
    num_drafts = sum(one.counts.num_drafts for one in measured)
    num_accepted = sum(sum(one.counts.accepted_per_position) for one in measured)
    assert served[1] > 10
    assert [num_drafts, num_accepted] == served
