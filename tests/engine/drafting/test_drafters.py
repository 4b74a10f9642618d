"""Every drafter that runs on a CPU, in the real engine, with another draft length in every step."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from losslessness import tiny_models
from losslessness.checks import teacher_force
from losslessness.engine_host import EngineHost
from losslessness.verdicts.evidence import Verdicts
from losslessness.verdicts.rounds import FOUND_ABOVE, RECORDER, WITH_TOP_P, draw_round

from paceline.demo import draft_path, target_path
from paceline.workbench.audit.statistics.greedy import NEAR_TIE_NATS

pytestmark = pytest.mark.engine

CEILING = 4
MAX_MODEL_LEN = 160
MAX_NUM_SEQS = 12
"""As many as a round of verdicts on the four prompts has requests."""
GREEDY = {"temperature": 0.0, "max_tokens": 40, "ignore_eos": True}
PROMPTS = [
    "def add(first, second):\n    return first + second\n\n" * 3,
    "# " + "=" * 70 + "\n# ===",
    "x = [0, 0, 0, 0, 0,",
    "import os\n",
]
"""Texts that repeat themselves in part, so that every one of these drafters is right sometimes."""


@dataclass(frozen=True)
class Case:
    """One drafter: its vLLM settings, and how it uses the length of a step."""

    method: str
    drafts_exact_length: bool
    """Each request gets a draft of exactly the planned length; otherwise of at most that length."""
    write_model: Callable[[Path], Path] | None = None
    settings: tuple[tuple[str, Any], ...] = ()
    least_accepted: float = 0.02
    """Lower bound of the accepted share; a drafter that reads the wrong text falls far below."""

    def llm(self, folder: Path) -> dict[str, Any]:
        speculative = {
            "method": self.method,
            "num_speculative_tokens": CEILING,
            **dict(self.settings),
        }
        target = target_path()
        if self.write_model is not None:
            model = self.write_model(folder)
            if self.method == "mtp":
                target = model
            else:
                speculative["model"] = str(model)
        return llm(target, speculative)


CASES = {
    "draft model": Case(
        "draft_model",
        True,
        settings=(("model", str(draft_path())), ("draft_sample_method", "probabilistic")),
        least_accepted=0.3,
    ),
    "n-gram": Case("ngram", False, settings=(("prompt_lookup_min", 1), ("prompt_lookup_max", 3))),
    "eagle": Case("eagle", True, tiny_models.write_eagle_head),
    "eagle3": Case("eagle3", True, tiny_models.write_eagle3_head),
    "eagle3 with fewer tokens": Case(
        "eagle3",
        True,
        tiny_models.write_reduced_eagle3_head,
        (("draft_sample_method", "probabilistic"),),
    ),
    "mtp": Case("mtp", True, tiny_models.write_mtp_target),
    "another tokenizer": Case(
        "draft_model",
        True,
        tiny_models.write_foreign_draft,
        (("use_heterogeneous_vocab", True),),
        least_accepted=0.3,
    ),
    "one pass": Case(
        "draft_model",
        False,
        tiny_models.write_parallel_draft,
        (("parallel_drafting", True),),
    ),
    "suffix": Case("suffix", False),
    "medusa": Case("medusa", False, lambda folder: tiny_models.write_medusa_heads(folder, CEILING)),
    "custom class": Case(
        "custom_class", False, settings=(("model", "losslessness.custom_drafter.RepeatingDrafter"),)
    ),
}


def llm(target: Path, speculative: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "model": str(target),
        "dtype": "float32",
        "max_model_len": MAX_MODEL_LEN,
        "max_num_seqs": MAX_NUM_SEQS,
        "speculative_config": speculative,
    }


@dataclass(frozen=True)
class Plain:
    """What the target generates without speculation."""

    prompts: list[list[int]]
    outputs: list[list[int]]


@pytest.fixture(scope="module")
def plain() -> Plain:
    """From an engine without speculation, under vLLM's own scheduler."""
    with EngineHost(llm(target_path(), None)) as host:
        prompts = host.tokenize(PROMPTS)
        return Plain(prompts, outputs_of(host, prompts))


def outputs_of(host: EngineHost, prompts: list[list[int]], **sampling: Any) -> list[list[int]]:
    return [answer["token_ids"] for answer in host.generate(prompts, **GREEDY | sampling)]


@dataclass(frozen=True)
class Governed:
    case: Case
    host: EngineHost


@pytest.fixture(scope="module", params=CASES, ids=str)
def governed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Governed]:
    """An engine with one drafter, which plans another length for every step."""
    case = CASES[request.param]
    arguments = case.llm(tmp_path_factory.mktemp("drafter") / "model")
    with EngineHost(
        arguments,
        policy={"policy": "fixed", "draft_length": CEILING},
        fault="losslessness.faults:plan_in_turn",
    ) as host:
        yield Governed(case, host)


def test_every_step_drafts_what_was_planned_and_the_output_is_the_targets(
    governed: Governed, plain: Plain
) -> None:
    """Lengths 0 to 4 in turn: the output of an engine without speculation, and vLLM's counts."""
    case, host = governed.case, governed.host
    outputs = outputs_of(host, plain.prompts)
    steps = [json.loads(found) for found in re.findall(r"in turn: (.*)", host.log())]
    verdicts = teacher_force(host, plain.prompts, outputs, near_tie_nats=NEAR_TIE_NATS["float32"])
    assert [verdict.wrong for verdict in verdicts] == [()] * len(outputs)
    for output, expected, verdict in zip(outputs, plain.outputs, verdicts, strict=True):
        assert output == expected or verdict.near_ties

    assert {step["asked"] for step in steps} == set(range(CEILING + 1))
    drafted = {asked: set() for asked in range(CEILING + 1)}
    for step in steps:
        drafted[step["asked"]] |= set(step["drafted"])
        assert step["asked"] > 0 or not step["drafted"]
    for asked in range(1, CEILING + 1):
        if case.drafts_exact_length:
            assert drafted[asked] == {asked}
        else:
            assert max(drafted[asked]) == asked
            assert min(drafted[asked]) >= 0

    metrics, state = host.metrics(), host.state()
    assert state["num_drafts_total"] == metrics["vllm:spec_decode_num_drafts"] > 0
    assert state["drafted_tokens_total"] == metrics["vllm:spec_decode_num_draft_tokens"]
    assert state["accepted_tokens_total"] == metrics["vllm:spec_decode_num_accepted_tokens"]
    assert state["policy_errors_total"] == 0
    share = state["accepted_tokens_total"] / state["drafted_tokens_total"]
    assert share > case.least_accepted


@pytest.fixture(scope="module")
def recorded(governed: Governed) -> EngineHost:
    """The engine, whose verdicts are recorded from here on."""
    governed.host.call(f"{RECORDER}:install")
    return governed.host


@pytest.mark.parametrize("num_copies", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_the_verdicts_on_sampled_requests_keep_to_the_claimed_probabilities(
    recorded: EngineHost, plain: Plain, num_copies: int
) -> None:
    """Greedy and sampled requests in one batch, lengths 0 to 4 in turn; every drafted token.

    Enough for a drafter whose tokens or probabilities reach the sampler in another order.
    `sampling/test_verdicts.py` finds smaller biases of the sampler, which all drafters share.
    """
    verdicts = Verdicts()
    verdicts.add(draw_round(recorded, plain.prompts * num_copies, number=WITH_TOP_P))
    evidence = verdicts.evidence()
    assert evidence.e_value < FOUND_ABOVE, evidence
    assert evidence.num["acceptance"] > 30 * num_copies
    assert verdicts.counts["greedy_tokens"] > 200 * num_copies
    assert verdicts.largest_greedy_gap < NEAR_TIE_NATS["float32"]


@pytest.mark.parametrize("ceiling", [CEILING, 0])
def test_near_the_context_limit_nothing_is_drafted(
    governed: Governed, plain: Plain, ceiling: int
) -> None:
    """Stock vLLM verifies zeros there, as many as the maximum, at every length."""
    host = governed.host
    assert host.control(op="set", ceiling=ceiling)["ok"]
    before = host.metrics()["vllm:spec_decode_num_drafts"]
    longest = [token for prompt in plain.prompts * 9 for token in prompt][: MAX_MODEL_LEN - 3]
    [output] = outputs_of(host, [longest], max_tokens=3)
    assert len(output) == 3
    assert host.metrics()["vllm:spec_decode_num_drafts"] == before
