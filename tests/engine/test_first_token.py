"""What first tokens that were never drafted say, against drafts that were."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts
from losslessness.telling_prompts import bundled_pair

pytestmark = pytest.mark.engine

TEXT = {"max_tokens": 120, "ignore_eos": True}


def engine(fault: str, **speculative: Any) -> EngineHost:
    return EngineHost(
        bundled_pair(**speculative),
        policy={"policy": "fixed", "draft_length": 0},
        fault=f"losslessness.faults:{fault}",
    )


def verdicts(host: EngineHost) -> list[int]:
    """All that were told so far."""
    reports = re.findall(r"first tokens: (.*)", host.log())
    return [verdict for report in reports for verdict in json.loads(report)]


def generate(host: EngineHost, prompts: list[list[int]], **sampling: Any) -> list[list[int]]:
    seeds = [{"seed": i} for i in range(len(prompts))]
    answers = host.generate(prompts, each=seeds, **{**TEXT, **sampling})
    return [answer["token_ids"] for answer in answers]


def accepted_share(host: EngineHost, prompts: list[list[int]], **sampling: Any) -> float:
    """Of drafts of one token, by vLLM's count."""
    assert host.control(op="set", draft_length=1)["ok"]
    before = host.metrics()
    generate(host, prompts, **sampling)
    after = host.metrics()
    drafted, accepted = (
        after[name] - before[name]
        for name in (
            "vllm:spec_decode_num_draft_tokens",
            "vllm:spec_decode_num_accepted_tokens",
        )
    )
    return float(accepted / drafted)


@pytest.fixture(scope="module")
def host() -> Iterator[EngineHost]:
    """Drafts are the draft model's best tokens, as vLLM has it by default."""
    with engine("tell_first_tokens") as started:
        yield started


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_first_tokens_come_as_often_as_drafts_are_accepted(
    host: EngineHost, temperature: float
) -> None:
    """Judged one token too early or too late, hardly one would come."""
    prompts = host.tokenize(stdlib_prompts(16))
    assert host.control(op="set", draft_length=0)["ok"]
    num_before = len(verdicts(host))
    generate(host, prompts, temperature=temperature)
    found = verdicts(host)[num_before:]
    assert len(found) == pytest.approx(16 * 120 / 5, rel=0.1)
    really = accepted_share(host, prompts, temperature=temperature)
    assert sum(found) / len(found) == pytest.approx(really, abs=0.08)


def test_telling_first_tokens_leaves_the_drafter_as_it_was(host: EngineHost) -> None:
    """After 60 steps in which it told, its drafts are accepted as often as without, and the output
    is the target's."""
    prompts = host.tokenize(stdlib_prompts(8))
    assert host.control(op="set", draft_length=0)["ok"]
    told = generate(host, prompts, temperature=0.0)
    without = accepted_share(host, prompts, temperature=0.0)
    assert host.control(op="set", draft_length=0)["ok"]
    texts = [p + t[:60] for p, t in zip(prompts, told, strict=True)]
    assert [t[:60] for t in generate(host, texts, temperature=0.0)] == [t[60:] for t in told]
    assert accepted_share(host, texts, temperature=0.0) == pytest.approx(without, abs=0.1)


def test_drawn_first_tokens_are_not_judged() -> None:
    """The drafter draws its drafts: that two draws differ says little. Greedy requests are told."""
    with engine("tell_first_tokens", draft_sample_method="probabilistic") as host:
        prompts = host.tokenize(stdlib_prompts(4))
        generate(host, prompts, temperature=1.0)
        assert verdicts(host) == []
        generate(host, prompts, temperature=0.0)
        assert len(verdicts(host)) > 50


def test_after_an_error_serving_goes_on_without_first_tokens() -> None:
    """The second judgement fails: one report, one line in the log, the same output."""
    with engine("fail_at_first_tokens") as host:
        prompts = host.tokenize(stdlib_prompts(2))
        told = generate(host, prompts, temperature=0.0)
        assert len(verdicts(host)) == 2
        assert host.log().count("first tokens are judged no more") == 1
        assert generate(host, prompts, temperature=0.0) == told
