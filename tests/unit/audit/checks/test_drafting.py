"""Without draft tokens while sampled answers are drawn, no verdict is lossless."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from paceline.workbench.audit.auditing import Audit, AuditConfig
from paceline.workbench.audit.checks.drafting import DraftUse
from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.verdict import Verdict
from unit.audit.simulated import Counting, SimulatedTransport

QUICK = AuditConfig(smallest_bias=2.0, restart_seconds=0.0)


async def audited(transport: SimulatedTransport) -> Audit:
    audit = Audit(Server(transport, url="http://m"), QUICK)
    await audit.run()
    return audit


def test_draft_tokens_of_all_waves_are_added() -> None:
    use = DraftUse()
    use.add(10.0, 30.0, 100)
    assert use.is_enough  # 0.2 for each token
    use.add(31.0, 31.0, 5)
    assert (use.num_drafts, use.num_tokens) == (20.0, 105)
    assert use.why_not is not None
    assert "too few drafts" in use.why_not


def test_a_server_that_does_not_count_gives_no_reason() -> None:
    use = DraftUse()
    use.add(None, None, 100)
    use.add(5.0, None, 100)
    assert not use.is_counted
    assert not use.is_enough
    assert use.why_not is None


class SeveralPerEvent(SimulatedTransport):
    """Sends four tokens per event without speculation; `page` has its metrics."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._page = page

    async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        [choice] = (await self.post(path, body))["choices"]
        ids = choice["token_ids"]
        parts = [ids[:1], *(ids[at : at + 4] for at in range(1, len(ids), 4))]
        return [{"choices": [{"token_ids": part}]} for part in parts]

    async def get_text(self, path: str) -> str:
        return self._page


class Restarting(Counting):
    """Its counter falls."""

    async def get_text(self, path: str) -> str:
        return f"vllm:spec_decode_num_draft_tokens_total {1e6 - len(self.bodies)}"


class DraftingGreedyAnswers(Counting):
    """Drafts greedy answers only; its streams show that."""

    async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        return await SimulatedTransport.post_stream(self, path, body)

    def drafts(self, body: Mapping[str, Any]) -> bool:
        return bool(body["temperature"] == 0)


@pytest.mark.parametrize(
    ("transport", "reason"),
    [
        (SeveralPerEvent("vllm:spec_decode_num_draft_tokens_total 0"), "no drafts were seen"),
        (SeveralPerEvent("vllm:num_requests_running 0"), "no drafts were seen"),
        (SeveralPerEvent("of another server"), "no drafts were seen"),
        (Restarting(), "counter of draft tokens fell"),
        (DraftingGreedyAnswers(), "no drafts were seen"),
    ],
)
async def test_a_server_that_drafts_no_sampled_answer_is_not_called_lossless(
    transport: SimulatedTransport, reason: str
) -> None:
    decision = (await audited(transport)).decision()
    assert decision.verdict is Verdict.UNDECIDED
    assert [reason in one for one in decision.reasons] == [True]


class DraftingUnderLittleLoad(Counting):
    """Drafts while at most four answers are in flight, as governors and batch limits do."""

    num_in_flight = 0

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        num = body.get("n", 1)
        self.num_in_flight += num
        try:
            await asyncio.sleep(0)
            return await super().post(path, body)
        finally:
            self.num_in_flight -= num

    def drafts(self, body: Mapping[str, Any]) -> bool:
        return self.num_in_flight <= 4


async def test_answers_in_flight_are_reduced_until_the_server_drafts() -> None:
    audit = await audited(DraftingUnderLittleLoad())
    assert audit.decision().verdict is Verdict.LOSSLESS, audit.decision().reasons
    drafting = audit.sampled.drafting
    assert drafting.num_drafts == drafting.num_tokens > 0
