"""The check of quality: task scores of the deployment beside those of an unquantized server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from paceline.foundation.answer_quality.values import Outcome
from paceline.foundation.workloads import WorkloadError
from paceline.operations.validate.checks import CHECKS, Deployment
from paceline.operations.validate.checks.output.quality import Scored, judge
from paceline.operations.validate.checks.scored_prompts import ScoredPrompt, read_scored_prompts
from paceline.operations.validate.target.target import Addresses, Target
from paceline.operations.validate.values import CheckResult, Missing, Status
from paceline.testing.fault_injection import Fault, FaultProxy
from paceline.testing.fault_injection.fault import Call, Reply
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from unit.validate.deployments import MOCKS, TIER, scored_prompts

[CHECK] = [check for check in CHECKS if check.id == "quality"]
OTHER = replace(MOCKS["gateway"], eos_every_tokens=2)
"""Ends nearly every answer early."""


def scored(num: int, num_worse: int, baseline: float = 1.0) -> Scored:
    """One prompt per conversation; the first ones are answered wrongly by the deployment."""
    outcomes = [
        Outcome(str(number), baseline, 0.0 if number < num_worse else baseline)
        for number in range(num)
    ]
    return Scored(tuple(outcomes), "original", num)


@pytest.mark.parametrize(
    ("num", "num_worse", "status", "reason"),
    [
        (300, 0, Status.PASS, "the loss of task score is at most 0.0"),
        (300, 90, Status.FAIL, "its task score is 0.300 lower"),
        (300, 6, Status.SKIP, "give more prompts"),
        (20, 0, Status.SKIP, "give more prompts"),
    ],
)
def test_the_mean_loss_decides(num: int, num_worse: int, status: Status, reason: str) -> None:
    judgement = judge(scored(num, num_worse), TIER)
    assert (judgement.status, reason in judgement.reason) == (status, True), judgement.reason
    assert judgement.figures["num_prompts"] == num
    assert judgement.figures["num_worse"] == num_worse
    assert judgement.figures["baseline_model"] == "original"


def test_prompts_that_the_baseline_fails_prove_nothing() -> None:
    judgement = judge(scored(300, 0, baseline=0.1), TIER)
    assert (judgement.status, "prompts that it fails" in judgement.reason) == (Status.SKIP, True)


def test_without_an_answered_prompt_there_is_nothing_to_judge() -> None:
    with pytest.raises(Missing, match="no prompt was answered by both"):
        judge(Scored((), "original", 20), TIER)


@asynccontextmanager
async def deployed(
    prompts: Sequence[ScoredPrompt],
    candidate: MockVllmSettings = MOCKS["gateway"],
    baseline: MockVllmSettings | None = MOCKS["gateway"],
) -> AsyncIterator[Deployment]:
    """A deployment with a server of the unquantized model, unless `baseline` is None."""
    async with MockVllm(candidate) as server, aiohttp.ClientSession() as session:
        target = Target(session, Addresses(URL(server.url)))
        await target.identify(None)
        deployment = Deployment(target, TIER, scored_prompts=tuple(prompts))
        if baseline is None:
            yield deployment
            return
        async with MockVllm(baseline) as original:
            deployment.baseline = Target(session, Addresses(URL(original.url)))
            yield deployment


async def run(prompts: Sequence[ScoredPrompt], **servers: MockVllmSettings | None) -> CheckResult:
    async with deployed(prompts, **servers) as deployment:  # type: ignore[arg-type]
        return await CHECK.run(deployment)


async def test_equal_servers_pass_and_a_worse_one_fails_before_all_prompts_are_sent() -> None:
    async with MockVllm(MOCKS["gateway"]) as server:
        prompts = await scored_prompts(server.url, 300)
    found = await run(prompts)
    assert found.status is Status.PASS, found.reason
    assert found.figures["baseline_score_fraction"] == 1.0
    worse = await run(prompts, candidate=OTHER)
    assert worse.status is Status.FAIL, worse.reason
    assert worse.figures["num_prompts"] == 16, "one part is enough"
    assert int(str(worse.figures["num_worse"])) > 8


async def test_what_the_user_has_not_given_is_named() -> None:
    prompts = [ScoredPrompt("a", "/v1/completions", {"prompt": "a", "max_tokens": 2}, "b")]
    for found, missing in (
        (await run(prompts, baseline=None), "--baseline"),
        (await run([]), "reference"),
    ):
        assert (found.status, missing in found.reason) == (Status.SKIP, True), found.reason


async def test_a_baseline_that_cannot_be_reached_decides_nothing() -> None:
    prompts = [ScoredPrompt("a", "/v1/completions", {"prompt": "a", "max_tokens": 2}, "b")]
    async with deployed(prompts, baseline=None) as deployment:
        session = deployment.target.session
        deployment.baseline = Target(session, Addresses(URL("http://127.0.0.1:1")))
        found = await CHECK.run(deployment)
    assert (found.status, "the baseline" in found.reason) == (Status.SKIP, True), found.reason


async def test_a_shared_deployment_is_asked_only_if_the_check_is_named() -> None:
    prompts = [ScoredPrompt("a", "/v1/completions", {"prompt": "a", "max_tokens": 2}, "b")]
    async with deployed(prompts) as deployment:
        deployment.is_shared = True
        assert "--require quality" in (await CHECK.run(deployment)).reason
        deployment.requested = ("quality",)
        assert "of 1 prompts" in (await CHECK.run(deployment)).reason


async def test_a_baseline_without_chats_is_named() -> None:
    chat = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2}
    prompts = [ScoredPrompt("a", "/v1/chat/completions", chat, "b")]
    refusal = Fault("no chats", "quality", "", "", on_call=_refuse_chats)
    async with deployed(prompts) as deployment, FaultProxy(_url(deployment.baseline)) as proxy:
        proxy.inject(refusal)
        addresses = Addresses(URL(proxy.url))
        deployment.baseline = Target(deployment.target.session, addresses)
        found = await CHECK.run(deployment)
    assert (found.status, "the baseline does not" in found.reason) == (Status.SKIP, True)


def _refuse_chats(call: Call) -> Call | Reply:
    return Reply(404, {}, b"{}") if "chat" in call.path else call


def _url(target: Target | None) -> str:
    assert target is not None
    return str(target.addresses.url)


async def test_a_baseline_that_refuses_a_prompt_decides_nothing_and_the_deployment_fails() -> None:
    long = {"prompt": "a " * 300, "max_tokens": 2}
    prompts = [ScoredPrompt("a", "/v1/completions", long, "b")]
    small = replace(MOCKS["gateway"], max_model_len=64)
    found = await run(prompts, baseline=small)
    assert (found.status, "the baseline" in found.reason) == (Status.SKIP, True), found.reason
    found = await run(prompts, candidate=small)
    assert (found.status, "status 400" in found.reason) == (Status.FAIL, True), found.reason


def test_a_file_gives_the_prompts_that_have_a_reference(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    more = [*chat, {"role": "assistant", "content": "a"}, {"role": "user", "content": "v"}]
    lines = [
        {"prompt": "p", "reference": "r", "max_tokens": 7},
        {"prompt": "q"},
        {"messages": chat, "reference": '{"a": 1}'},
        {"messages": more, "reference": "z"},
    ]
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    text, first, later = read_scored_prompts(file)
    assert (text.path, text.fields) == ("/v1/completions", {"prompt": "p", "max_tokens": 7})
    assert text.reference == "r"
    assert first.path == "/v1/chat/completions"
    assert first.fields == {"messages": chat, "max_tokens": 256}
    assert first.conversation == later.conversation != text.conversation


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "p"}\n{"question": "p"}\n')
    with pytest.raises(WorkloadError, match="line 2"):
        read_scored_prompts(file)
