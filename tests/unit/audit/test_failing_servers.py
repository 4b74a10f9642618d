"""Servers that die or fail under an audit, or lose acceptance only: the verdict and its reasons."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from paceline.testing.mock_vllm.model.sampling_defect import DefectKind, SamplingDefect
from paceline.workbench.audit.auditing import Audit, AuditConfig
from paceline.workbench.audit.known_issues import TENSORRT_STALE_DRAFT, VLLM_CPU
from paceline.workbench.audit.output.document import render_document
from paceline.workbench.audit.output.lines import render_lines
from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.transport import ServerError
from unit.audit.simulated import Drafting, DyingOn, SimulatedTransport

QUICK = AuditConfig(smallest_bias=2.0, restart_seconds=0.0)


async def audited(transport: SimulatedTransport) -> dict[str, Any]:
    """The report of a whole audit, which must also render as lines."""
    audit = Audit(Server(transport, url="http://m"), QUICK)
    await audit.run()
    document = render_document(audit, {})
    assert render_lines(document)[0] == f"{document['verdict']}: http://m"
    return document


async def test_a_faulty_server_is_found_lossy_before_top_k_ends_it() -> None:
    """As stock vLLM on a CPU: wrong at every temperature, and dead at the first top-k."""
    server = DyingOn("top_k", SamplingDefect(DefectKind.RANDOM_TEMPERATURE))
    document = await audited(server)
    assert document["verdict"] == "lossy"
    assert not server.is_dead
    assert document["smallest_failing_request"]["body"]["top_k"] == -1


async def test_the_evidence_of_few_answers_counts_before_the_server_dies() -> None:
    """As stock vLLM on a CPU: drafted tokens are garbage, and sampling in parallel ends it."""

    class DyingOfLoad(SimulatedTransport):
        num_in_flight = 0
        is_dead = False

        def __init__(self, *, is_right: bool) -> None:
            super().__init__()
            self._is_right = is_right

        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            is_sampled = body["temperature"] > 0 and body["max_tokens"] > 1
            self.num_in_flight += is_sampled
            await asyncio.sleep(0)
            self.is_dead |= self.num_in_flight > 1 or (is_sampled and body.get("n", 1) > 1)
            self.num_in_flight -= is_sampled
            if self.is_dead:
                raise ServerError("cannot reach it")
            document = await super().post(path, body)
            if is_sampled and not self._is_right:
                [choice] = document["choices"]
                choice["token_ids"][1:] = [7] * (len(choice["token_ids"]) - 1)
            return document

    right, wrong = [await audited(DyingOfLoad(is_right=is_right)) for is_right in (True, False)]
    assert right["verdict"] == "undecided"
    assert [one["url"] for one in right["known_issues"]] == [VLLM_CPU.url]
    assert wrong["verdict"] == "lossy"


ORDINARY = ("seed", "top_k", "presence_penalty", "logit_bias", "response_format", "n", "stop")
"""Fields of ordinary requests."""


@pytest.mark.parametrize("field", ORDINARY)
async def test_an_ordinary_request_that_ends_the_server_for_good_is_found(field: str) -> None:
    """It was sent alone, after samples without the field were judged."""
    document = await audited(DyingOn(field))
    assert document["verdict"] == "lossy"
    [reason] = document["reasons"]
    assert f" with {field}, sent alone during the check of " in reason
    assert reason.endswith("it died; it was not back when the audit ended")
    smallest = document["smallest_failing_request"]
    assert smallest["body"][field]
    assert document["deaths"] == [
        {
            "body": smallest["body"],
            "curl": smallest["curl"],
            "error": "it died",
            "is_back": False,
            "ends_again": None,
        }
    ]
    assert render_lines(document).count(smallest["curl"]) == 1
    assert document["sampled"]["num_drafted_tokens"] > 0


async def test_a_reference_that_dies_is_named() -> None:
    """After 12 requests: when its log-probabilities are wanted."""

    class DyingReference(SimulatedTransport):
        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if len(self.bodies) >= 12:
                raise ServerError("cannot reach it")
            return await super().post(path, body)

    reference = Server(DyingReference(), url="http://r")
    audit = Audit(Server(SimulatedTransport(), url="http://m"), QUICK, reference)
    await audit.run()
    document = render_document(audit, {})
    assert document["verdict"] == "undecided"
    assert "cannot reach it; the reference does not answer any more" in document["reasons"][0]
    assert document["failed_request"]["curl"].startswith("curl -s http://r/v1/completions")


async def test_a_reference_that_dies_under_samples_is_no_known_issue_of_the_audited_server() -> (
    None
):
    """It dies once the audited server gets sampled requests, which the reference never gets."""

    class DyingReference(SimulatedTransport):
        is_dead = False

        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if self.is_dead:
                raise ServerError("cannot reach it")
            return await super().post(path, body)

    transport = DyingReference()

    def on_progress(text: str) -> None:
        transport.is_dead |= text == "plain sampled answers"

    server, reference = (
        Server(SimulatedTransport(), url="http://m"),
        Server(transport, url="http://r"),
    )
    audit = Audit(server, QUICK, reference, on_progress)
    await audit.run()
    document = render_document(audit, {})
    assert audit.is_sampling
    assert "the reference does not answer any more" in document["reasons"][0]
    assert document["known_issues"] == []


class FailingOn(Drafting):
    """Answers requests with this field, or streams of this length, with a 500."""

    def __init__(self, *, field: str = "", stream_tokens: int = 0) -> None:
        super().__init__(stale=False)
        self._field = field
        self._stream_tokens = stream_tokens

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if body.get(self._field):
            raise ServerError("status 500", 500)
        return await super().post(path, body)

    async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        if body["max_tokens"] == self._stream_tokens:
            raise ServerError("status 500", 500)
        return await super().post_stream(path, body)


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (
            FailingOn(field="presence_penalty"),
            "the server fails on sampled requests with penalties: status 500",
        ),
        (FailingOn(field="response_format"), "structured output: the server fails: status 500"),
        (FailingOn(stream_tokens=48), "acceptance: the server fails: status 500"),
    ],
)
async def test_what_the_server_fails_on_and_survives_is_a_reason_of_undecided(
    server: FailingOn, reason: str
) -> None:
    document = await audited(server)
    assert document["verdict"] == "undecided"
    assert document["reasons"] == [reason]
    assert document["failed_request"] is None


async def test_a_request_that_fails_once_says_that_the_server_still_answers() -> None:
    """The first truth after the plain samples began."""

    class FailingOnce(SimulatedTransport):
        num_sampled = 0

        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            self.num_sampled += body["temperature"] == 1.0 and body["max_tokens"] == 6
            if self.num_sampled == 12:
                self.num_sampled += 1
                raise ServerError("status 500", 500)
            return await super().post(path, body)

    document = await audited(FailingOnce())
    assert document["verdict"] == "undecided"
    assert "status 500; the server still answers others" in document["reasons"][0]
    assert document["failed_request"]["is_server_alive"]


async def test_an_interruption_while_a_dead_server_is_asked_leaves_its_failure() -> None:
    """It dies on a feature, after enough samples for a verdict, and then hangs."""

    class Hanging(SimulatedTransport):
        is_dead = False
        num_asked = 0
        """Requests that ask whether it is alive; the second one hangs."""

        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            self.is_dead |= "response_format" in body
            if not self.is_dead:
                return await super().post(path, body)
            self.num_asked += body["max_tokens"] == 1
            if self.num_asked == 2:
                hangs.set()
                await asyncio.Event().wait()
            raise ServerError("it died")

    hangs = asyncio.Event()
    audit = Audit(Server(Hanging(), url="http://m"), QUICK)
    task = asyncio.create_task(audit.run())
    await hangs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    document = render_document(audit, {})
    assert document["verdict"] == "undecided"
    assert "during the check of features: it died" in document["reasons"][0]


@pytest.mark.parametrize("stale", [False, True])
async def test_a_stale_draft_cache_is_a_finding_of_a_lossless_server(stale: bool) -> None:
    document = await audited(Drafting(stale=stale))
    assert document["verdict"] == "lossless", document["reasons"]
    assert document["acceptance"]["collapses"] is stale
    issues = [one["url"] for one in document["known_issues"]]
    assert issues == ([TENSORRT_STALE_DRAFT.url] if stale else [])
    assert ["falls from 3.00 to 0.00 drafts" in one for one in document["findings"]] == (
        [True] if stale else []
    )
