"""First-token verdicts at length 0 agree with the acceptance of real drafts of one token."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts
from losslessness.telling_prompts import bundled_pair

from paceline.engine.worker import first_token_probe
from paceline.engine.worker.first_token_probe import head_fraction_of_workers

pytestmark = pytest.mark.engine

NUM_TOKENS = 120
TEXT = {"max_tokens": NUM_TOKENS, "ignore_eos": True}


def engine(fault: str, **speculative: Any) -> EngineHost:
    return EngineHost(
        bundled_pair(**speculative),
        policy={"policy": "fixed", "draft_length": 0},
        fault=f"losslessness.faults:{fault}",
    )


def verdicts(host: EngineHost) -> list[int]:
    """All verdicts so far."""
    reports = re.findall(r"first tokens: (.*)", host.log())
    return [verdict for report in reports for verdict in json.loads(report)]


def generate(host: EngineHost, prompts: list[list[int]], **sampling: Any) -> list[list[int]]:
    seeds = [{"seed": i} for i in range(len(prompts))]
    answers = host.generate(prompts, each=seeds, **{**TEXT, **sampling})
    return [answer["token_ids"] for answer in answers]


def accepted_share(host: EngineHost, prompts: list[list[int]], **sampling: Any) -> float:
    """The accepted share of drafts of one token, by vLLM's counters."""
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
    with engine("compare_first_tokens") as started:
        yield started


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("num_tokens", "tolerance"),
    [(60, 0.1), pytest.param(NUM_TOKENS, 0.08, marks=pytest.mark.slow)],
)
def test_verdicts_agree_with_the_acceptance_of_real_drafts(
    host: EngineHost, num_tokens: int, tolerance: float, temperature: float
) -> None:
    """Verdicts one token too early or too late would hardly ever be positive.

    192 verdicts and some 550 drafts have a standard error of at most 0.045 together; half of the
    drafts are accepted.
    """
    prompts = host.tokenize(stdlib_prompts(16))
    assert host.control(op="set", draft_length=0)["ok"]
    num_before = len(verdicts(host))
    generate(host, prompts, temperature=temperature, max_tokens=num_tokens)
    found = verdicts(host)[num_before:]
    assert len(found) == pytest.approx(16 * num_tokens / 5, rel=0.15)
    real = accepted_share(host, prompts, temperature=temperature, max_tokens=num_tokens)
    assert sum(found) / len(found) == pytest.approx(real, abs=tolerance)


def test_comparing_first_tokens_does_not_change_the_drafter(host: EngineHost) -> None:
    """After 60 steps with comparisons, drafts are accepted as often as without, and the output is
    the target's."""
    prompts = host.tokenize(stdlib_prompts(8))
    assert host.control(op="set", draft_length=0)["ok"]
    outputs = generate(host, prompts, temperature=0.0)
    without = accepted_share(host, prompts, temperature=0.0)
    assert host.control(op="set", draft_length=0)["ok"]
    texts = [p + t[:60] for p, t in zip(prompts, outputs, strict=True)]
    rest = generate(host, texts, temperature=0.0, max_tokens=60)
    assert rest == [t[60:] for t in outputs]
    assert accepted_share(host, texts, temperature=0.0) == pytest.approx(without, abs=0.1)


class OneWorker:
    """An executor whose worker has the wrappers, a drafter that keeps up, and an output layer as
    large as its target."""

    def __init__(self, *, async_scheduling: bool = False, **speculative: Any) -> None:
        draft = SimpleNamespace(
            hf_config=SimpleNamespace(),
            dtype=torch.float32,
            get_vocab_size=lambda: 10,
            get_hidden_size=lambda: 4,
        )
        settings = {
            "method": "eagle3",
            "parallel_drafting": False,
            "draft_sample_method": "greedy",
            "draft_model_config": draft,
        }
        self.runner = Runner()
        self.runner.vllm_config = SimpleNamespace(
            speculative_config=SimpleNamespace(**{**settings, **speculative}),
            scheduler_config=SimpleNamespace(async_scheduling=async_scheduling),
        )

    def collective_rpc(self, method: Any) -> list[Any]:
        return [method(SimpleNamespace(model_runner=self.runner))]


class Runner:
    """The attributes that the probe reads from vLLM's model runner."""

    vllm_config: Any
    kv_cache_config = None
    model = torch.nn.Linear(4, 10, bias=False)

    def take_draft_token_ids(self) -> None:
        """The wrapped method."""


@pytest.fixture
def wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Runner.take_draft_token_ids, first_token_probe.PROBE.mark, True, raising=False
    )
    monkeypatch.setattr(first_token_probe, "drafter_rests", lambda *_: False)


def test_the_output_layer_is_weighed_against_the_target(wrapped: None) -> None:
    assert head_fraction_of_workers(OneWorker()) == pytest.approx(0.5)
    assert head_fraction_of_workers(None) is None


@pytest.mark.parametrize(
    "configuration",
    [
        {"draft_sample_method": "probabilistic"},
        {"parallel_drafting": True},
        {"method": "suffix"},
        {"async_scheduling": True},
    ],
)
def test_without_comparisons_the_workers_do_not_offer_them(
    wrapped: None, configuration: dict[str, Any]
) -> None:
    """The governor then explores with real drafts. Two sampled tokens agree too rarely to compare;
    a drafter that drafts in one pass always drafts the maximum."""
    assert head_fraction_of_workers(OneWorker(**configuration)) is None


def test_after_an_error_serving_continues_without_first_tokens() -> None:
    """The second comparison fails: one report, one log line, the same output."""
    with engine("fail_comparing_first_tokens") as host:
        prompts = host.tokenize(stdlib_prompts(2))
        outputs = generate(host, prompts, temperature=0.0, max_tokens=40)
        assert len(verdicts(host)) == 2
        assert host.log().count("the first-token probe failed and is off") == 1
        assert generate(host, prompts, temperature=0.0, max_tokens=40) == outputs
