"""Requests of every kind in one batch, against an engine without speculation, by value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts

from paceline.demo import draft_path, target_path

pytestmark = pytest.mark.engine

CEILING = 4
MAX_TOKENS = 40
START, END = "<|im_start|>", "# done\n"
"""What this engine takes for the two ends of a reasoning section."""
WORDS = r"([a-z]{2,9}, ){4}[a-z]{2,9}\."
GREEDY = {"temperature": 0.0, "max_tokens": MAX_TOKENS, "ignore_eos": True}
SEEDED = {"temperature": 1.0, "top_p": 0.95, "seed": 11}


def llm(speculative: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "model": str(target_path()),
        "dtype": "float32",
        "max_model_len": 512,
        "max_num_seqs": 32,
        "reasoning_config": {"reasoning_start_str": START, "reasoning_end_str": END},
        "speculative_config": speculative,
    }


@dataclass(frozen=True)
class Batch:
    """Requests by kind; each kind has one request per prompt."""

    kinds: list[str]
    prompts: list[list[int]]
    parameters: list[dict[str, Any]]
    end_ids: list[int]

    def run(self, host: EngineHost) -> dict[str, list[dict[str, Any]]]:
        """The answers by kind."""
        answers = host.generate(self.prompts, each=self.parameters)
        found: dict[str, list[dict[str, Any]]] = {}
        for kind, answer in zip(self.kinds, answers, strict=True):
            found.setdefault(kind, []).append(answer)
        return found


def batch(host: EngineHost) -> Batch:
    """Two prompts, whose reasoning section is open, in every kind."""
    texts = [text[-120:] for text in stdlib_prompts(2)]
    start_ids, end_ids = host.tokenize([START, END])
    prompts = [[*ids, *start_ids] for ids in host.tokenize(texts)]
    plain = host.generate(prompts, **GREEDY)
    likely = plain[0]["token_ids"]
    unlikely = [token for token in range(300, 900) if token not in likely]
    words = sorted({word for answer in plain for word in re.findall(r" \w+", answer["text"])})
    kinds: dict[str, dict[str, Any]] = {
        "greedy": {},
        "short budget": {"thinking_token_budget": 3},
        "long budget": {"thinking_token_budget": 11},
        "grammar": {"structured_outputs": {"regex": WORDS}, "ignore_eos": False},
        "penalties": {
            "repetition_penalty": 1.2,
            "frequency_penalty": 0.4,
            "presence_penalty": 0.3,
        },
        "logprobs": {"logprobs": 3},
        "bad words": {"bad_words": words[:8]},
        "allowed ids": {"allowed_token_ids": unlikely},
        "stop": {"stop_token_ids": likely[4:9]},
        "least": {"stop_token_ids": likely[4:9], "min_tokens": 10},
        "seed": SEEDED,
    }
    return Batch(
        [kind for kind in kinds for _ in prompts],
        [prompt for _ in kinds for prompt in prompts],
        [{**GREEDY, **parameters} for parameters in kinds.values() for _ in prompts],
        end_ids,
    )


@dataclass(frozen=True)
class Answers:
    """What engines answered to the same batch."""

    batch: Batch
    expected: dict[str, list[dict[str, Any]]]
    """Without speculation."""
    found: dict[str, dict[str, list[dict[str, Any]]]]
    """By draft lengths."""
    state: dict[str, Any]
    """Of the speculating engine, after all batches."""


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    with EngineHost(llm(None)) as plain:
        requests = batch(plain)
        expected = requests.run(plain)
    speculative = {
        "method": "draft_model",
        "model": str(draft_path()),
        "num_speculative_tokens": CEILING,
    }
    with EngineHost(
        llm(speculative),
        policy={"policy": "fixed", "draft_length": CEILING},
        fault="losslessness.faults:plan_in_turn",
    ) as host:
        found = {"changing": requests.run(host)}
        host.control(op="set", ceiling=0)
        found["zero"] = requests.run(host)
        yield Answers(requests, expected, found, host.state())


LENGTHS = ["changing", "zero"]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(
    "kind",
    [
        "greedy",
        "short budget",
        "long budget",
        "grammar",
        "penalties",
        "logprobs",
        "bad words",
        "allowed ids",
        "stop",
        "least",
    ],
)
def test_greedy_output_of_every_kind_is_that_without_speculation(
    answers: Answers, lengths: str, kind: str
) -> None:
    """Lengths 3, 0, 1, 4, 2 in turn, and 0 in all steps; 22 requests in the batch."""
    expected = [answer["token_ids"] for answer in answers.expected[kind]]
    assert [answer["token_ids"] for answer in answers.found[lengths][kind]] == expected
    if kind not in ("greedy", "logprobs"):
        assert expected != [answer["token_ids"] for answer in answers.expected["greedy"]]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_logprobs_are_those_without_speculation(answers: Answers, lengths: str) -> None:
    """Three per token, to float32's rounding."""
    pairs = zip(answers.found[lengths]["logprobs"], answers.expected["logprobs"], strict=True)
    for found, expected in pairs:
        for ours, theirs in zip(found["logprobs"], expected["logprobs"], strict=True):
            assert ours == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_every_parameter_has_its_effect(answers: Answers, lengths: str) -> None:
    """The outputs obey the parameters, whatever the engine without speculation did."""
    found, parameters = answers.found[lengths], answers.batch.parameters
    end = answers.batch.end_ids
    for kind, budget in (("short budget", 3), ("long budget", 11)):
        for answer in found[kind]:
            assert answer["token_ids"][budget : budget + len(end)] == end
    by_kind = dict(zip(answers.batch.kinds, parameters, strict=True))
    for answer in found["grammar"]:
        assert re.fullmatch(WORDS, answer["text"])
    for answer in found["allowed ids"]:
        assert set(answer["token_ids"]) <= set(by_kind["allowed ids"]["allowed_token_ids"])
    for answer in found["least"]:
        assert len(answer["token_ids"]) >= 10


def test_without_drafts_a_seed_gives_the_tokens_of_an_engine_without_speculation(
    answers: Answers,
) -> None:
    """At length 0 each token takes one draw of the request's generator, as in stock vLLM."""
    expected = [answer["token_ids"] for answer in answers.expected["seed"]]
    assert [answer["token_ids"] for answer in answers.found["zero"]["seed"]] == expected


def test_the_batch_was_speculated(answers: Answers) -> None:
    assert answers.state["accepted_tokens_total"] > 100
    assert answers.state["policy_errors_total"] == 0
