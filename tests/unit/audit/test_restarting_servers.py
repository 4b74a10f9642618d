"""Servers that come back after they ended: the audit continues, and sends the request again."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import pytest

from paceline.testing.mock_vllm.model.sampling_defect import DefectKind, SamplingDefect
from paceline.workbench.audit.auditing import Audit, AuditConfig
from paceline.workbench.audit.output.document import render_document
from paceline.workbench.audit.output.lines import render_lines
from paceline.workbench.audit.server import server as server_module
from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.transport import ServerError
from paceline.workbench.audit.verdict import Verdict
from unit.audit.simulated import Drafting, DyingOn, SimulatedTransport, unreachable
from unit.audit.test_failing_servers import ORDINARY


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
