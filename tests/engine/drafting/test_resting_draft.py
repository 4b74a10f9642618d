"""Drafters rest at draft length 0, and their later drafts are as good as without the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts

from engine.drafting.test_head_acceptance import repeating_head
from paceline.demo import draft_path, target_path
from paceline.foundation.models.heads.folder import write_head
from paceline.foundation.models.models import load_model

pytestmark = pytest.mark.engine

GREEDY = {"temperature": 0.0, "max_tokens": 48, "ignore_eos": True}
ON_AND_OFF = {"policy": "fixed", "draft_length": 3}


DRAFT_MODEL = {"method": "draft_model", "model": str(draft_path()), "num_speculative_tokens": 3}


def engine(
    fault: str | None, tokens_per_step: int = 2048, drafter: dict[str, Any] = DRAFT_MODEL
) -> EngineHost:
    injected = None if fault is None else f"losslessness.faults:{fault}"
    return EngineHost(arguments(tokens_per_step, drafter), policy=ON_AND_OFF, fault=injected)


def arguments(tokens_per_step: int = 2048, drafter: dict[str, Any] = DRAFT_MODEL) -> dict[str, Any]:
    """vLLM caches prefixes by default: prompts with the same beginning share cache blocks."""
    return {
        "model": str(target_path()),
        "dtype": "float32",
        "max_model_len": 512,
        "max_num_seqs": 8,
        "max_num_batched_tokens": tokens_per_step,
        "speculative_config": drafter,
    }


@dataclass(frozen=True)
class Waves:
    """The results of three waves of the same prompts."""

    outputs: list[list[int]]
    num_drafts: float
    accepted: list[float]
    """Accepted tokens per position, by vLLM's counters."""

    def acceptance(self) -> list[float]:
        return [accepted / self.num_drafts for accepted in self.accepted]


def three_waves(host: EngineHost) -> Waves:
    """Generate three times for the same prompts, two to three cache blocks (of 128 tokens) long.

    The host's fault alternates the length between stretches of 0 and of 3, so prompts are prefilled
    in both, and the second and third wave find the blocks of the first in the cache.
    """
    pieces = host.tokenize(stdlib_prompts(12))
    prompts = [[*a, *b] for a, b in zip(pieces[::2], pieces[1::2], strict=True)]
    outputs: list[list[int]] = []
    for _ in range(3):
        outputs += [answer["token_ids"] for answer in host.generate(prompts, **GREEDY)]
    metrics = host.metrics()
    return Waves(
        outputs,
        metrics["vllm:spec_decode_num_drafts"],
        metrics["vllm:spec_decode_num_accepted_tokens_per_pos"],
    )


def test_drafts_after_a_rest_are_as_good_as_without_one() -> None:
    """Same outputs and the same acceptance as an engine whose draft model never rests.

    Both draft in the same steps. Drafts from a stale cache are accepted less often: the third
    engine, which rests and never catches up, shows by how much. The fourth may catch up with only
    192 tokens a step, its prefill limit: it drafts later, and its drafts are as good.
    """
    with engine("alternate_lengths") as host:
        rested = three_waves(host)
    with engine("alternate_lengths_without_rest") as host:
        never_rested = three_waves(host)
    with engine("alternate_lengths_without_catching_up") as host:
        stale = three_waves(host)
    with engine("alternate_lengths", tokens_per_step=192) as host:
        bounded = three_waves(host)
    assert rested.outputs == never_rested.outputs == stale.outputs == bounded.outputs
    assert rested.num_drafts == pytest.approx(never_rested.num_drafts, rel=0.02)
    assert rested.acceptance() == pytest.approx(never_rested.acceptance(), rel=0.02)
    assert stale.acceptance()[2] < 0.85 * rested.acceptance()[2]
    assert bounded.num_drafts > 0.3 * rested.num_drafts
    assert bounded.acceptance() == pytest.approx(rested.acceptance(), rel=0.15)


def test_a_head_drafts_after_a_rest_as_without_one(tmp_path: Path) -> None:
    """The same tokens, step by step; from a stale cache it drafts others. Nearly all: a pass over
    many tokens rounds in another way than one over few."""
    head = repeating_head(load_model(target_path(), torch.float32, torch.device("cpu")))
    with torch.no_grad():
        head.midlayer.self_attn.o_proj.weight.mul_(1000)  # what it attends to decides
    write_head(head, tmp_path)
    drafter = {"method": "eagle3", "model": str(tmp_path), "num_speculative_tokens": 3}

    def drafts_under(fault: str) -> list[tuple[int, ...]]:
        with engine(fault, drafter=drafter) as host:
            host.call("losslessness.noted_drafts:note_drafts")
            three_waves(host)
            steps = host.call("losslessness.noted_drafts:take_drafts")
        return [tuple(draft) for step in steps for draft in step]

    rested = drafts_under("alternate_lengths")
    never_rested = drafts_under("alternate_lengths_without_rest")
    stale = drafts_under("alternate_lengths_without_catching_up")
    assert len(rested) == len(never_rested) == len(stale) > 300
    assert share_equal(rested, never_rested) > 0.97
    assert share_equal(stale, never_rested) < 0.8


def share_equal(one: Sequence[object], other: Sequence[object]) -> float:
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


def test_beside_a_request_at_the_context_limit_nothing_is_drafted_and_nothing_is_missed_later() -> (
    None
):
    """Stock vLLM skips the draft model for the whole batch and verifies three zeros per request.

    Here nothing is verified. When it drafts again, the draft model first computes the tokens it
    missed: drafts are accepted as often as without the long request.
    """
    with engine(None) as host:
        prompts = host.tokenize(stdlib_prompts(7))
        longest = [token for _ in range(9) for prompt in prompts for token in prompt][: 512 - 10]

        def drafts_of(prompts: list[list[int]]) -> tuple[list[list[int]], float, float]:
            before = host.metrics()
            each = [{"max_tokens": 10 if len(prompt) > 500 else 48} for prompt in prompts]
            answers = host.generate(prompts, each=each, temperature=0.0, ignore_eos=True)
            after = host.metrics()
            drafted, accepted = (
                after[f"vllm:spec_decode_num_{kind}_tokens"]
                - before[f"vllm:spec_decode_num_{kind}_tokens"]
                for kind in ("draft", "accepted")
            )
            return [answer["token_ids"] for answer in answers], drafted, accepted

        alone, drafted, accepted = drafts_of(prompts)
        [_, *beside], drafted_beside, accepted_beside = drafts_of([longest, *prompts])
    assert beside == alone
    assert 0.3 * drafted < drafted_beside < drafted
    assert accepted_beside / drafted_beside == pytest.approx(accepted / drafted, rel=0.1)


def test_the_tokens_of_a_step_do_not_wait_for_its_drafts() -> None:
    """Nor does the first one. Afterwards each step drafts once."""
    host = EngineHost(arguments(), policy=ON_AND_OFF, fault="losslessness.step_order:note_order")
    with host:
        prompts = host.tokenize(stdlib_prompts(2))
        host.call("losslessness.step_order:take_order")
        host.generate(prompts, **GREEDY)
        happened = host.call("losslessness.step_order:take_order")
    assert happened[::2] == ["tokens"] * (len(happened) // 2)
    assert happened[1::2] == ["drafts"] * (len(happened) // 2)
