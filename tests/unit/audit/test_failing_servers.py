"""Servers that die or fail under an audit, or lose acceptance only: the verdict and its reasons."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import pytest

from paceline.testing.mock_vllm.model.sampling_defect import DefectKind, SamplingDefect
from paceline.workbench.audit.auditing import Audit, AuditConfig
from paceline.workbench.audit.known_issues import TENSORRT_STALE_DRAFT, VLLM_CPU
from paceline.workbench.audit.output.document import render_document
from paceline.workbench.audit.output.lines import render_lines
from paceline.workbench.audit.server import server as server_module
from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.transport import ServerError
from paceline.workbench.audit.verdict import Verdict
from unit.audit.simulated import Drafting, DyingOn, SimulatedTransport, unreachable

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


class Restarting(DyingOn):
    """Is back after two requests that it leaves unanswered."""

    num_deaths = 0
    num_unanswered = 0
    num_answered = 0
    """Since the last restart."""

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if self.is_dead:
            self.num_unanswered += 1
            if self.num_unanswered % 3 == 0:
                self.is_dead = False
        was_dead = self.is_dead
        try:
            document = await super().post(path, body)
        finally:
            self.num_deaths += self.is_dead and not was_dead
        self.num_answered += 1
        return document


@pytest.fixture
def quick_restarts(monkeypatch: pytest.MonkeyPatch) -> AuditConfig:
    monkeypatch.setattr(server_module, "_RETRY_S", 0.0)
    return AuditConfig(smallest_bias=2.0, restart_seconds=60.0)


@pytest.mark.parametrize("field", ORDINARY)
async def test_the_audit_continues_without_that_kind_of_request(
    field: str, quick_restarts: AuditConfig
) -> None:
    transport = Restarting(field)
    audit = Audit(Server(transport, url="http://m"), quick_restarts)
    await audit.run()
    document = render_document(audit, {})
    assert document["verdict"] == "lossy"
    assert [(one["is_back"], one["ends_again"]) for one in document["deaths"]] == [(True, True)]
    [reason] = document["reasons"]
    assert reason.startswith("an ordinary request ends the server each time (2 of 2), ")
    assert "A request that ends the server each time:" in render_lines(document)
    assert document["smallest_failing_request"]["body"][field]
    assert document["failed_request"] is None
    assert transport.num_deaths == 2
    assert audit.error is None
    assert document["error_rates"]["smallest_bias"] <= 2.0  # the samples were completed
    assert {one.name for one in audit.features.found} >= {
        "seeds",
        "stop",
        "n",
        "structured output",
    } - {{"response_format": "structured output"}.get(field, field)}


@pytest.mark.parametrize("field", ["seed", "top_k", "n", "response_format"])
async def test_a_death_that_the_same_request_does_not_repeat_is_undecided(
    field: str, quick_restarts: AuditConfig
) -> None:
    """As a server that something else ended while the request was in flight."""

    class DyingOnce(Restarting):
        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if self.num_deaths and not self.is_dead:
                return await SimulatedTransport.post(self, path, body)
            return await super().post(path, body)

    transport = DyingOnce(field)
    audit = Audit(Server(transport, url="http://m"), quick_restarts)
    await audit.run()
    document = render_document(audit, {})
    assert document["verdict"] == "undecided"
    assert [(one["is_back"], one["ends_again"]) for one in document["deaths"]] == [(True, False)]
    [reason] = [one for one in document["reasons"] if "ended once" in one]
    assert reason.startswith(
        "the server ended once at an ordinary request, and not when it was sent again, "
    )
    dead = document["deaths"][0]["body"]
    assert [body for body in transport.bodies if body == dead] == [dead]
    assert document["smallest_failing_request"] is None
    assert audit.error is None


async def test_a_server_that_is_not_back_after_the_repeat_is_said_to_end_each_time(
    quick_restarts: AuditConfig,
) -> None:
    class BackOnce(Restarting):
        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if self.num_deaths == 2:
                raise unreachable()
            return await super().post(path, body)

    config = dataclasses.replace(quick_restarts, restart_seconds=0.2)
    audit = Audit(Server(BackOnce("seed"), url="http://m"), config)
    await audit.run()
    [death] = audit.deaths
    assert (death.is_back, death.ends_again) == (False, True)
    assert audit.decision().verdict is Verdict.LOSSY
    assert "each time (2 of 2)" in str(death)
    assert str(death).endswith("it was not back when the audit ended")


async def test_a_streamed_request_that_ends_the_server_is_repeated_as_a_stream(
    quick_restarts: AuditConfig,
) -> None:
    class DyingOnStreams(Drafting):
        """Is back after three requests that it leaves unanswered."""

        num_streams = 0
        num_unanswered = 0
        is_dead = False

        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if self.is_dead:
                self.num_unanswered += 1
                self.is_dead = self.num_unanswered % 3 != 0
                raise unreachable()
            return await super().post(path, body)

        async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
            if body["max_tokens"] == 48:
                self.num_streams += 1
                self.is_dead = True
                raise ServerError("it died")
            return await super().post_stream(path, body)

    transport = DyingOnStreams(stale=False)
    audit = Audit(Server(transport, url="http://m"), quick_restarts)
    await audit.run()
    [death] = audit.deaths
    assert (transport.num_streams, death.body["stream"], death.ends_again) == (2, True, True)


async def test_a_wrong_answer_comes_before_an_end_as_the_smallest_request(
    quick_restarts: AuditConfig,
) -> None:
    transport = Restarting("logit_bias", SamplingDefect(DefectKind.FILTERS_IGNORED))
    config = dataclasses.replace(quick_restarts, smallest_bias=0.1)
    audit = Audit(Server(transport, url="http://m"), config)
    await audit.run()
    document = render_document(audit, {})
    assert document["verdict"] == "lossy"
    assert len(document["reasons"]) == 2
    assert document["smallest_failing_request"]["body"]["top_k"] > 0


async def test_an_end_under_several_requests_is_looked_for_one_at_a_time(
    quick_restarts: AuditConfig,
) -> None:
    """Two greedy requests in flight end it, so no request alone does."""

    class DyingOfTwo(SimulatedTransport):
        num_in_flight = 0
        num_asked = 0
        is_dead = False

        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if self.is_dead:
                self.num_asked += 1
                self.is_dead = self.num_asked < 3
                raise unreachable()
            self.num_in_flight += 1
            await asyncio.sleep(0)
            self.is_dead |= self.num_in_flight > 1
            self.num_in_flight -= 1
            return await super().post(path, body)

    server = Server(DyingOfTwo(), url="http://m")
    audit = Audit(server, quick_restarts)
    await audit.run()
    document = render_document(audit, {})
    assert document["verdict"] == "undecided"
    [reason] = document["reasons"]
    assert "the check of greedy answers, and did not answer for a time (cannot reach it)" in reason
    assert document["deaths"] == []
    assert document["greedy"]["is_finished"]


@pytest.mark.parametrize("status", [429, 502, 503, 504, None])
async def test_an_overloaded_server_is_not_said_to_have_ended(
    status: int | None, quick_restarts: AuditConfig
) -> None:
    """As a gateway whose only engine restarts for another reason: nothing is blamed. None is a
    timeout."""

    class Away(SimulatedTransport):
        num_refused = 0

        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if 0 < self.num_refused < 4 or (body.get("seed") is not None and not self.num_refused):
                self.num_refused += 1
                error = ServerError("no engine is ready", status)
                error.is_timeout = status is None
                raise error
            return await super().post(path, body)

    audit = Audit(Server(Away(), url="http://m"), quick_restarts)
    await audit.run()
    assert audit.deaths == []
    document = render_document(audit, {})
    assert document["verdict"] == "undecided"
    assert "which request was the cause is not known" in document["reasons"][0]


async def test_a_server_that_is_away_again_and_again_ends_no_check_for_ever(
    quick_restarts: AuditConfig,
) -> None:
    class Flapping(SimulatedTransport):
        num_posts = 0

        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            self.num_posts += 1
            if self.num_posts > 20 and self.num_posts % 20 < 3:
                raise unreachable()
            return await super().post(path, body)

    audit = Audit(Server(Flapping(), url="http://m"), quick_restarts)
    async with asyncio.timeout(60):
        await audit.run()
    assert audit.deaths == []
    assert audit.decision().verdict is Verdict.UNDECIDED


async def test_the_wait_for_a_server_does_not_count_in_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(DyingOn):
        num_asked = 0

        async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if self.is_dead and body["max_tokens"] == 1:
                self.num_asked += 1
                if self.num_asked % 3 == 0:
                    # sleep: half of the time away, which the deadline moves by at least
                    await asyncio.sleep(0.75)
                    self.is_dead = False
            return await super().post(path, body)

    monkeypatch.setattr(server_module, "_RETRY_S", 0.0)
    audit = Audit(Server(Slow("seed"), url="http://m"), AuditConfig(60.0, smallest_bias=2.0))
    begun_s = time.monotonic()
    await audit.run()
    assert [one.is_back for one in audit.deaths] == [True]
    assert audit._deadline_s >= begun_s + 61.5


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
