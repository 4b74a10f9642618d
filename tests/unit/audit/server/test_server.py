"""What a server supports is found out by requests; the truth costs one request per prefix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.transport import ServerError
from paceline.workbench.audit.server.truth import Truth
from paceline.workbench.audit.values import GREEDY, AuditError, Request, SamplingCase
from unit.audit.simulated import DyingOn, SimulatedTransport, WithoutDrafts


class Refusing(SimulatedTransport):
    """Refuses bodies with some fields, as a strict server or Paceline's gateway does."""

    def __init__(self, *fields: str) -> None:
        super().__init__()
        self._fields = fields

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if refused := [name for name in self._fields if body.get(name)]:
            raise ServerError(f"{refused} not allowed", 400)
        return await super().post(path, body)


class Strict(SimulatedTransport):
    """Does not know `min_p`."""

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if "min_p" in body:
            raise ServerError("min_p is not a field", 422)
        return await super().post(path, body)


async def test_a_mock_vllm_supports_everything_but_shows_no_drafts() -> None:
    server = Server(WithoutDrafts(), url="http://m")
    await server.probe()
    assert await server.probe_choices() + await server.probe_parameters() == []
    support = server.support
    assert support.model == "m"
    assert support.shows_token_ids
    assert support.num_logprobs == 20
    assert support.scores_prompts
    assert support.n
    assert support.top_k
    assert support.penalties
    assert support.logit_bias
    assert support.prompt_lists
    assert support.cache_salt
    assert support.neutral_fields
    assert support.min_p
    assert support.tokens_per_event == 1.0
    assert support.off_switch is None


async def test_refused_fields_are_not_used_later() -> None:
    transport = Refusing("top_k", "logit_bias", "echo", "n", "cache_salt")
    server = Server(transport, url="http://m")
    await server.probe()
    assert await server.probe_choices() + await server.probe_parameters() == []
    support = server.support
    found = (support.top_k, support.logit_bias, support.scores_prompts, support.n)
    assert not any(found)
    assert not support.cache_salt
    assert support.penalties


@pytest.mark.parametrize("knows_min_p", [True, False])
async def test_a_default_of_min_p_is_kept_out_where_the_server_knows_the_field(
    knows_min_p: bool,
) -> None:
    transport = SimulatedTransport() if knows_min_p else Strict()
    server = Server(transport, url="http://m")
    await server.probe()
    body = server.body(Request("a", SamplingCase("case"), 6))
    assert body["top_k"] == -1
    assert body.get("min_p") == (0.0 if knows_min_p else None)


@pytest.mark.parametrize(
    ("sizes", "shows_drafts"),
    [([1, 1, 3, 2], True), ([1, 4, 4, 4], False), ([1, 1, 1, 1], False), ([4, 4, 8, 1], False)],
)
async def test_streams_show_drafts_by_events_of_one_token_among_larger_ones(
    sizes: list[int], shows_drafts: bool
) -> None:
    class InParts(SimulatedTransport):
        async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
            return [{"choices": [{"token_ids": [7] * size}]} for size in sizes]

    server = Server(InParts(), url="http://m")
    assert (await server.probe()).shows_drafts is shows_drafts


async def test_a_server_that_serves_no_completions_cannot_be_audited() -> None:
    server = Server(Refusing("prompt"), url="http://m")
    with pytest.raises(AuditError, match="no completions to audit"):
        await server.probe()


class Failing(SimulatedTransport):
    """Answers bodies with one field with an error."""

    def __init__(self, field: str, status: int | None) -> None:
        super().__init__()
        self._field = field
        self._status = status

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if self._field in body:
            raise ServerError("it failed", self._status)
        return await super().post(path, body)


@pytest.mark.parametrize("status", [400, 404, 422, 501])
async def test_a_refused_field_is_not_supported(status: int) -> None:
    server = Server(Failing("logit_bias", status), url="http://m")
    await server.probe()
    assert await server.probe_choices() + await server.probe_parameters() == []
    assert not server.support.logit_bias
    assert server.support.penalties


@pytest.mark.parametrize("status", [500, 503, 429, None])
async def test_a_failure_is_not_taken_for_a_missing_feature(status: int | None) -> None:
    """The server still answers other requests."""
    server = Server(Failing("logit_bias", status), url="http://m")
    await server.probe()
    assert await server.probe_parameters() == ["sampled requests with logit_bias: it failed"]
    assert not server.support.logit_bias
    assert server.support.penalties
    assert server.support.top_k


@pytest.mark.parametrize("status", [500, 503, 429, None])
async def test_a_failure_in_the_first_probe_ends_it(status: int | None) -> None:
    with pytest.raises(ServerError, match="it failed"):
        await Server(Failing("cache_salt", status), url="http://m").probe()


async def test_a_parameter_that_ends_the_server_ends_the_probe_with_its_request() -> None:
    server = Server(DyingOn("presence_penalty"), url="http://m")
    await server.probe()
    assert await server.is_alive()
    with pytest.raises(ServerError, match="it died") as found:
        await server.probe_parameters()
    assert found.value.body is not None
    assert found.value.body["presence_penalty"] == 0.5
    assert not await server.is_alive()


class TextStream(SimulatedTransport):
    """Streams log-probabilities by token, if requested, and no token ids."""

    async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{"choices": [{"text": "ab", "logprobs": {"tokens": ["a", "b"]}}]}] * 3


async def test_tokens_of_a_stream_without_ids_are_counted_by_log_probabilities() -> None:
    server = Server(TextStream(), url="http://m")
    await server.probe()
    assert await server.token_counts(Request("a", GREEDY, 6, num_logprobs=5)) == [2, 2, 2]


async def test_a_reference_must_list_the_audited_model() -> None:
    """The simulated server lists `m`."""
    with pytest.raises(AuditError, match="does not list the model 'another'"):
        await Server(SimulatedTransport(), url="http://m").probe(model="another")
    assert (await Server(SimulatedTransport(), url="http://m").probe(model="m")).model == "m"


@pytest.mark.parametrize("scores", [True, False])
async def test_truth_is_asked_once_per_prefix_and_equals_the_model(scores: bool) -> None:
    """The prompt is one token; the answers share their first token. Rank 0 has p = 0.401."""
    transport = SimulatedTransport() if scores else Refusing("echo")
    server = Server(transport, url="http://m")
    await server.probe()
    truth = Truth(server)
    num_before = server.num_requests
    answers = [((65,), (300, 301, 302)), ((65,), (300, 301, 303)), ((65,), (300, 310))]
    found = await truth.logprobs(answers)
    # Distinct prefixes 65, 65 300, 65 300 301; or the longest missing prefix of each answer.
    assert server.num_requests - num_before == 1
    [body] = transport.bodies[-1:]
    assert len(body["prompt"]) == (2 if scores else 3)
    assert [len(positions) for positions in found] == [3, 3, 2]
    assert found[0] == found[1]
    best = 1 / sum(math.exp(-rank / 2) for rank in range(8))
    for known in found[0]:
        assert max(known.values()) == pytest.approx(math.log(best))
    assert await truth.logprobs(answers) == found
    assert server.num_requests - num_before == 1


@pytest.mark.parametrize("refused", ["", "cache_salt"])
async def test_truth_reads_no_block_of_the_prefix_cache_where_the_server_allows(
    refused: str,
) -> None:
    """Each request has a salt of its own, and shares blocks with no other."""
    transport = Refusing("echo", refused)
    server = Server(transport, url="http://m")
    await server.probe()
    num_before = len(transport.bodies)
    truth = Truth(server)
    for last in range(300, 303):
        await truth.logprobs([((65,), (last, 301))])
    salts = [body.get("cache_salt") for body in transport.bodies[num_before:]]
    if refused:
        assert salts == [None] * 3
    else:
        assert all(salts)
        assert len(set(salts)) == 3


async def test_a_server_without_lists_of_prompts_is_asked_for_one_at_a_time() -> None:
    class OnePrompt(SimulatedTransport):
        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if isinstance(body["prompt"], list) and isinstance(body["prompt"][0], list):
                raise ServerError("one prompt only", 400)
            return await super().post(path, body)

    lists, single = (
        Server(SimulatedTransport(), url="http://m"),
        Server(OnePrompt(), url="http://m"),
    )
    answers = [((65,), (300, 301, 302)), ((65, 66), (300, 310))]
    found = []
    for server in (lists, single):
        await server.probe()
        found.append(await Truth(server).logprobs(answers))
    assert found[0] == found[1]
    assert not single.support.prompt_lists
