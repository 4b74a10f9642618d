"""Streams continue token for token on a real engine after their connections to it are cut.

The gateway has two replicas that are the same engine: one through a relay that cuts connections
inside the answers, one directly. `test_continuation.py` kills engines instead, in `make test-slow`.
The engine is shared with `test_gateway_engine.py`, whose last test kills it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import aiohttp
import pytest
import pytest_asyncio
from chaos.attempt_log import FailedAttempt
from chaos.real_engines.answers.answer_checks import AnswerChecks, Checked
from chaos.real_engines.bundled import bundled_checks, bundled_tokenizer, prompts
from chaos.real_engines.request_kinds import FAST_KINDS, Check, RequestKind, body_of
from chaos.real_engines.run_report import LoadRequest, Prompt, find_errors
from chaos.transcript import Ending, Transcript, send_request

from engine.serving.cutting_relay import CuttingRelay
from engine.serving.vllm_server import MAX_MODEL_LEN, MODEL, VllmServer
from paceline.runtime.gateway import GatewaySettings, Replica, serve_gateway

pytestmark = [
    pytest.mark.engine,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

MAX_TOKENS = 96
VOCABULARY = 4096
KINDS = [kind for kind in FAST_KINDS if kind.name != "tools"]
"""This engine has no parser of tool calls."""
ONE_PER_CHECK = {(kind.check, kind.has_ids): kind for kind in reversed(KINDS)}.values()
"""A kind for each way in which answers are judged."""
CUT = FailedAttempt("cut", "broken", "", "continue_elsewhere", "replica_failed")


@dataclass(frozen=True, slots=True)
class TwoWays:
    """A replica source: the engine through the relay, and the engine itself."""

    current: list[Replica]

    def replicas(self) -> list[Replica]:
        return self.current


@dataclass(frozen=True, slots=True)
class CutGateway:
    """A gateway in front of the relay and the engine."""

    url: str
    relay: CuttingRelay
    session: aiohttp.ClientSession
    prompts: list[Prompt]
    """With the greedy answers of uncut connections."""

    @property
    def checks(self) -> AnswerChecks:
        return bundled_checks(self.url, MODEL)

    async def send(self, kind: RequestKind, prompt: Prompt) -> Transcript:
        body = body_of(kind, MODEL, prompt.text, MAX_TOKENS)
        return await send_request(self.session, self.url + kind.path, body)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(vllm_server: VllmServer) -> AsyncIterator[CutGateway]:
    engine = vllm_server
    relay = CuttingRelay(engine.socket.with_name("relay.sock"), engine.socket)
    ways = {"cut": relay.address, "whole": engine.socket}
    source = TwoWays(
        [
            Replica(
                name,
                str(address),
                MODEL,
                "ready",
                engine.control_socket,
                MAX_MODEL_LEN,
                drafts=True,
                honours_draft_caps=True,
            )
            for name, address in ways.items()
        ]
    )
    settings = GatewaySettings(
        port=0,
        admin_port=0,
        drain_timeout_s=2,
        granted_fields=frozenset({"ignore_eos", "prompt_logprobs"}),
    )
    async with (
        relay,
        serve_gateway(settings, source) as running,
        aiohttp.ClientSession() as session,
    ):
        known = [Prompt(text) for text in prompts(2)]
        started = CutGateway(running.url, relay, session, known)
        own = [(kind, prompt) for prompt in known for kind in KINDS if kind.has_own_reference]
        transcripts = await asyncio.gather(*(started.send(*one) for one in own))
        for (kind, prompt), transcript in zip(own, transcripts, strict=True):
            assert transcript.ending is Ending.COMPLETED, transcript
            prompt.references[kind.name] = transcript
        yield started


async def test_cut_streams_end_with_the_tokens_of_uncut_ones(gateway: CutGateway) -> None:
    """Every kind of request twice, all at once; about half of them begin at the relay."""
    sent = [(kind, prompt) for prompt in gateway.prompts for kind in KINDS]
    gateway.relay.is_cutting = True
    transcripts = await asyncio.gather(*(gateway.send(*one) for one in sent))
    gateway.relay.is_cutting = False
    requests = [
        LoadRequest(kind, prompt, MAX_TOKENS, transcript, [CUT])
        for (kind, prompt), transcript in zip(sent, transcripts, strict=True)
    ]
    assert gateway.relay.num_cut >= 3
    assert find_errors(requests) == []
    num_completed = sum(one.transcript.ending is Ending.COMPLETED for one in requests)
    assert num_completed >= sum(one.kind.is_eligible for one in requests)
    checked = await gateway.checks.check(requests)
    assert checked.num_compared + checked.num_sampled_judged == len(requests)
    assert checked.num_sampled_judged == len(gateway.prompts)
    assert checked.faults == []
    assert checked.num_tails_unjudged == 0


def with_another_token(ids: list[int]) -> list[int]:
    """With an improbable token in the middle."""
    half = len(ids) // 2
    return [*ids[:half], (ids[half] + 1) % VOCABULARY, *ids[half + 1 :]]


def without_a_token(ids: list[int]) -> list[int]:
    half = len(ids) // 2
    return [*ids[:half], *ids[half + 1 :]]


async def test_planted_faults_are_found_by_what_a_real_engine_computes(gateway: CutGateway) -> None:
    """One wrong token, and one lost token, in an otherwise right answer."""
    prompt, decode = gateway.prompts[0], bundled_tokenizer().decode

    async def check(kind: RequestKind, answer: Transcript) -> Checked:
        received = answer if kind.has_ids else replace(answer, ids=[])
        return await gateway.checks.check([LoadRequest(kind, prompt, MAX_TOKENS, received, [CUT])])

    for kind in ONE_PER_CHECK:
        is_sampled = kind.check is Check.SAMPLED
        right = prompt.references["chat" if is_sampled else kind.reference]
        assert (await check(kind, right)).differences == [], kind.name
        for change in (
            (with_another_token,) if is_sampled else (with_another_token, without_a_token)
        ):
            ids = change(right.ids)
            checked = await check(kind, replace(right, ids=ids, text=decode(ids)))
            assert len(checked.faults) == 1, (kind.name, change.__name__)
