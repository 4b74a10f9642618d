"""Deployments of mock engines that `paceline validate` checks, behind a proxy that injects faults.

Each has what one kind of fault needs: `plain` requires a key, `drafting` shows counters of drafts,
`baseline` has a server of the unquantized model beside it, `gateway` is Paceline's gateway over two
replicas, with its admin port.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from yarl import URL

from paceline.operations.validate.checks import CHECKS, Check, Deployment
from paceline.operations.validate.checks.scored_prompts import ScoredPrompt
from paceline.operations.validate.target.answers import read_answer
from paceline.operations.validate.target.target import COMPLETIONS, Addresses, Target
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import CheckResult
from paceline.runtime.gateway import (
    FleetSettings,
    GatewaySettings,
    Replica,
    ReplicaEntry,
    serve_gateway,
)
from paceline.runtime.gateway.settings import FailureSettings
from paceline.testing.fault_injection import Fault, FaultProxy
from paceline.testing.mock_vllm import Fault as MockFault
from paceline.testing.mock_vllm import FaultKind, MockVllm, MockVllmSettings
from paceline.testing.mock_vllm.model.speculation import Speculation

KEY = "the-key-of-the-plain-deployment"
_MODEL = "mock"
_MOCK = MockVllmSettings(
    model=_MODEL,
    tpot_ms=1.0,
    prefill_tokens_per_s=1e6,
    eos_every_tokens=0,
    max_model_len=40_000,
    num_kv_blocks=10_000,
)
MOCKS = {
    "plain": replace(_MOCK, api_key=KEY),
    "drafting": replace(_MOCK, speculation=Speculation(3, (0.8, 0.6, 0.4))),
    "baseline": _MOCK,
    "gateway": _MOCK,
}
_NUM_SCORED = 260
"""Prompts with reference answers: enough for an approval."""
TIER = Tier(
    name="mock",
    summary="A small load on a mock engine, with limits that a busy machine keeps.",
    concurrency=4,
    num_requests=20,
    max_tokens=12,
    ttft_p99_ms=60_000,
    tpot_p99_ms=60_000,
    min_acceptance_fraction=0.3,
    source="chosen for tests",
)
_FLEET = FleetSettings(
    poll_period_s=0.02, poll_timeout_s=60, load_period_s=0.02, warm_up_timeout_s=60
)
EXPECTED_SKIPS = {
    "plain": {"ready", "acceptance", "draining", "quality"},
    "gateway": {"api-keys", "acceptance", "quality"},
}
"""What a sound deployment has nothing to show for."""
SETTLE_S = 60.0
"""Where all is right, the wait ends as soon as the gauges have settled."""
SETTLE_WITH_FAULT_S = 1.0
"""A fault is not waited for: what has not settled by then counts, and has not to settle."""


class _NoEngines:
    def replicas(self) -> Sequence[Replica]:
        return ()


@dataclass
class RunningDeployment:
    """A deployment, its proxy, and the target that reaches it through the proxy."""

    proxy: FaultProxy
    target: Target
    clean: Deployment
    """Without a fault; its checks share their observations."""

    async def run(self, check: Check[Any]) -> CheckResult:
        """The result of a check without a fault."""
        return await check.run(self.clean)

    async def run_with(self, fault: Fault) -> CheckResult:
        """The result of the check that must find the fault."""
        return await self.run_check_with(check_of(fault), fault)

    async def run_check_with(
        self, check: Check[Any], fault: Fault, settle_s: float = SETTLE_WITH_FAULT_S
    ) -> CheckResult:
        """The result of a check, with observations of its own, while a fault is injected."""
        tier = replace(self.clean.tier, **fault.tier_changes)
        usual_s, self.target.settle_s = self.target.settle_s, settle_s
        self.proxy.inject(fault)
        try:
            observed_anew = replace(self.clean, tier=tier, shared={})
            return await check.run(observed_anew)
        finally:
            self.proxy.inject()
            self.target.settle_s = usual_s


def check_of(fault: Fault) -> Check[Any]:
    """The check that must find the fault."""
    return next(check for check in CHECKS if check.id == fault.check)


@asynccontextmanager
async def running(
    kind: str,
    sampler_fault: FaultKind | None = None,
    *,
    fleet: FleetSettings = _FLEET,
    settle_s: float = SETTLE_S,
) -> AsyncIterator[RunningDeployment]:
    """The deployment of this kind; its sampler may be defective."""
    faults = () if sampler_fault is None else (MockFault(sampler_fault),)
    async with AsyncExitStack() as stack:
        mocks = [
            await stack.enter_async_context(MockVllm(MOCKS[kind], faults=faults))
            for _ in range(2 if kind == "gateway" else 1)
        ]
        url, admin_url = mocks[0].url, None
        if kind == "gateway":
            entries = tuple(
                ReplicaEntry(url=mock.url, name=f"replica-{number}")
                for number, mock in enumerate(mocks)
            )
            settings = GatewaySettings(
                fleet=replace(fleet, entries=entries),
                failures=FailureSettings(max_attempts=1),
                port=0,
                admin_port=0,
                drain_timeout_s=0.3,
            )
            gateway = await stack.enter_async_context(serve_gateway(settings, _NoEngines()))
            url, admin_url = gateway.url, gateway.admin_url
        proxy = await stack.enter_async_context(FaultProxy(url, admin_url))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        admin = None if proxy.admin_url is None else URL(proxy.admin_url)
        key = KEY if kind == "plain" else None
        target = Target(session, Addresses(URL(proxy.url), admin, key), settle_s=settle_s)
        await target.wait_for(
            lambda: target.request("GET", "/v1/models"), lambda reply: b'"id"' in reply.body
        )
        await target.identify(None)
        if kind == "gateway":
            await target.wait_for(
                lambda: target.request("GET", "/admin/replicas", base=admin, sends_key=False),
                lambda reply: reply.body.count(b'"state":"ready"') == len(mocks),
            )
        clean = Deployment(target, TIER, allows_drain=True)
        if kind == "baseline":
            original = await stack.enter_async_context(MockVllm(MOCKS[kind]))
            clean.baseline = Target(session, Addresses(URL(original.url)))
            clean.scored_prompts = tuple(await scored_prompts(original.url, _NUM_SCORED))
        yield RunningDeployment(proxy, target, clean)


async def scored_prompts(url: str, num: int, max_tokens: int = 6) -> list[ScoredPrompt]:
    """Prompts whose references are the greedy answers of the mock engine at `url`."""
    found = []
    async with aiohttp.ClientSession() as session:
        target = Target(session, Addresses(URL(url)))
        await target.identify(None)
        for number in range(num):
            fields = {"prompt": f"Question {number}:", "max_tokens": max_tokens}
            reply = await target.post(COMPLETIONS, temperature=0, **fields)
            text = read_answer(reply).only().text
            found.append(ScoredPrompt(str(number), COMPLETIONS, fields, text))
    return found
