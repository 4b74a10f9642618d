"""Replay scores of a resting draft model agree with the acceptance of its real drafts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts

from paceline.demo import draft_path, target_path

pytestmark = pytest.mark.engine

SLOW = pytest.mark.slow
CEILING = 4
START_LENGTH = 2  # scored drafts begin where drafts of this length would have begun
GREEDY = {"temperature": 0.0, "max_tokens": 120, "ignore_eos": True}


def engine(draft_sample_method: str, fault: str = "score_replays") -> EngineHost:
    arguments: dict[str, Any] = {
        "model": str(target_path()),
        "dtype": "float32",
        "max_model_len": 512,
        "max_num_seqs": 8,
        "speculative_config": {
            "method": "draft_model",
            "model": str(draft_path()),
            "num_speculative_tokens": CEILING,
            "draft_sample_method": draft_sample_method,
        },
    }
    return EngineHost(
        arguments,
        policy={"policy": "fixed", "draft_length": 0},
        fault=f"losslessness.faults:{fault}",
    )


@pytest.fixture(scope="module")
def host() -> Iterator[EngineHost]:
    """Drafts are the draft model's best tokens, as vLLM has it by default."""
    with engine("greedy") as started:
        yield started


def reports(host: EngineHost) -> list[dict[str, Any]]:
    """All replay scores so far."""
    return [json.loads(found) for found in re.findall(r"replay scores: (.*)", host.log())]


def generate(host: EngineHost, prompts: list[list[int]], **sampling: Any) -> list[list[int]]:
    seeds = [{"seed": i} for i in range(len(prompts))]
    answers = host.generate(prompts, each=seeds, **{**GREEDY, **sampling})
    return [answer["token_ids"] for answer in answers]


def accepted_in_replay(found: list[dict[str, Any]]) -> tuple[list[float], int]:
    """The share of drafts accepted up to each position, and the number of drafts.

    A product over the positions: if the text ends inside a draft, its later positions are unknown.
    """
    drafts = [
        d for report in found for d in zip(report["drafted"], report["accepted"], strict=True)
    ]
    share, shares = 1.0, []
    for position in range(1, CEILING + 1):
        reached = [a for d, a in drafts if a >= position - 1 and d >= position]
        share *= sum(a >= position for a in reached) / len(reached)
        shares.append(share)
    return shares, len(drafts)


def drafted(
    host: EngineHost, prompts: list[list[int]], *, length: int = CEILING, **sampling: Any
) -> list[float]:
    """The same share for real drafts of this length, by vLLM's counters; 0 beyond it."""
    assert host.control(op="set", draft_length=length)["ok"]
    before = host.metrics()
    generate(host, prompts, **sampling)
    after = host.metrics()
    num_drafts = after["vllm:spec_decode_num_drafts"] - before["vllm:spec_decode_num_drafts"]
    name = "vllm:spec_decode_num_accepted_tokens_per_pos"
    return [(a - b) / num_drafts for a, b in zip(after[name], before[name], strict=True)]


def check_against_real_drafts(
    host: EngineHost, num_prompts: int, *, min_drafts: int, temperature: float, tolerance: float
) -> None:
    """The shares agree, and replay scoring does not change the output.

    Drafts scored one token too early or too late would hardly ever be accepted; half or more of the
    real ones are. The tolerance is two to four standard errors of a share of `min_drafts`, such a
    mistake ten or more. Longer drafts begin at other places, so that they agree less closely.
    """
    prompts = host.tokenize(stdlib_prompts(num_prompts))
    assert host.control(op="set", policy="off")["ok"]
    off = generate(host, prompts, temperature=temperature)
    assert host.control(op="set", policy="fixed", draft_length=0)["ok"]
    num_before = len(reports(host))
    scored = generate(host, prompts, temperature=temperature)
    found = reports(host)[num_before:]
    assert scored == off
    shares, num_drafts = accepted_in_replay(found)
    assert num_drafts > min_drafts
    short = drafted(host, prompts, length=START_LENGTH, temperature=temperature)
    assert shares[:START_LENGTH] == pytest.approx(short[:START_LENGTH], abs=tolerance)
    real = drafted(host, prompts, temperature=temperature)
    assert shares == pytest.approx(real, abs=tolerance + 0.05)


@pytest.mark.parametrize(
    ("num_prompts", "min_drafts", "tolerance"),
    [(8, 200, 0.08), pytest.param(24, 600, 0.05, marks=SLOW)],
)
def test_scores_of_greedy_requests_agree_with_real_drafts(
    host: EngineHost, num_prompts: int, min_drafts: int, tolerance: float
) -> None:
    """Replayed and real drafts continue the same text."""
    check_against_real_drafts(
        host, num_prompts, min_drafts=min_drafts, temperature=0.0, tolerance=tolerance
    )


def test_scores_of_sampled_requests_agree_with_real_drafts(host: EngineHost) -> None:
    """Replayed and real drafts continue different texts, so the tolerance is wider."""
    check_against_real_drafts(host, 8, min_drafts=300, temperature=1.0, tolerance=0.08)


@pytest.mark.parametrize(
    ("num_prompts", "min_drafts", "tolerance"),
    [(16, 120, 0.12), pytest.param(32, 300, 0.1, marks=SLOW)],
)
def test_sampled_drafts_are_scored_by_probability_ratios(
    num_prompts: int, min_drafts: int, tolerance: float
) -> None:
    """The drafter samples too, so a draft token is accepted with target over draft probability.

    Target probabilities are recorded for at most 16 steps before a pass, of four requests in turn.
    These steps say nothing about the cost of a draft length, and the report's time includes the
    recording.
    """
    with engine("probabilistic", fault="slow_down_replay_recording") as host:
        check_against_real_drafts(
            host, num_prompts, min_drafts=min_drafts, temperature=1.0, tolerance=tolerance
        )
        log = host.log()
    recorded: list[dict[str, Any]] = []
    num_passes = 0
    for kind, line in re.findall(r"(recorded|replay scores): (.*)", log):
        if kind == "recorded":
            recorded.append(json.loads(line))
        elif recorded:
            assert len(recorded) <= 16
            assert not any(step["is_clean"] for step in recorded)
            assert json.loads(line)["seconds"] > sum(step["seconds"] for step in recorded)
            recorded, num_passes = [], num_passes + 1
    assert num_passes > num_prompts // 4


def test_a_long_prompt_is_computed_in_pieces_before_its_drafts_are_scored(host: EngineHost) -> None:
    """A single request may have 48 tokens computed per pass."""
    assert host.control(op="set", draft_length=0)["ok"]
    tokens = [token for prompt in host.tokenize(stdlib_prompts(30)[-4:]) for token in prompt]
    num_before = len(reports(host))
    generate(host, [tokens[:150]], max_tokens=240)
    found = reports(host)[num_before:]
    assert [report["computed_tokens"] for report in found[:3]] == [48, 48, 48]
    assert [report["drafted"] for report in found[:3]] == [[], [], []]
    assert found[0]["missing_tokens"] > 150 - 48
    assert found[-1]["missing_tokens"] == 0
    assert len(found[-1]["drafted"]) > 2


def test_drafts_are_scored_deeper_than_they_are_made(host: EngineHost) -> None:
    """At length 1, scores for drafts of 4; the drafter's cache is unchanged."""
    prompts = host.tokenize(stdlib_prompts(16))
    assert host.control(op="set", draft_length=CEILING)["ok"]
    plain = generate(host, prompts)
    assert host.control(op="set", draft_length=1)["ok"]
    num_before = len(reports(host))
    assert generate(host, prompts) == plain
    found = [report for report in reports(host)[num_before:] if report["draft_length"] == 1]
    shares, num_drafts = accepted_in_replay(found)
    assert num_drafts > 100
    assert shares == pytest.approx(drafted(host, prompts), abs=0.1)


def test_after_an_error_serving_continues_without_replay_scoring() -> None:
    """The second of three passes fails: one score, one log line, the same output."""
    with engine("greedy", fault="fail_in_replay_scoring") as host:
        prompts = host.tokenize(stdlib_prompts(2))
        scored = generate(host, prompts, max_tokens=60)
        assert len(reports(host)) == 1
        assert host.log().count("replay scoring failed and is off") == 1
        assert host.control(op="set", policy="off")["ok"]
        assert generate(host, prompts, max_tokens=60) == scored
