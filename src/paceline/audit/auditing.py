"""Run the checks of an audit in turn, within its time, and keep what they found so far.

An audit that ends early, by its deadline, an error or Ctrl-C, leaves the results of the checks that
it finished, and the partial ones. What may end the server comes after plain samples.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.audit.checks.acceptance import AcceptanceResult, check_acceptance
from paceline.audit.checks.features import FeatureResults, check_features
from paceline.audit.checks.greedy import GreedyResult, check_greedy
from paceline.audit.checks.sampled import (
    PLAIN_CASES,
    SampledCheck,
    SampledResult,
    sampling_cases,
)
from paceline.audit.checks.shrinking import shrink
from paceline.audit.prompts import PROMPTS, REPETITIVE
from paceline.audit.server.server import Server
from paceline.audit.server.transport import ServerError
from paceline.audit.server.truth import Truth
from paceline.audit.statistics.evidence import Evidence
from paceline.audit.statistics.greedy import NEAR_TIE_NATS
from paceline.audit.statistics.noise import TYPICAL_NATS
from paceline.audit.values import AuditError
from paceline.audit.verdict import Decision, decide

_ACCEPTANCE_SHARE = 0.25
"""Of the time: acceptance is not part of the verdict."""
_PLAIN_BIAS = 1.0
"""Plain samples find twice or half the odds before other parameters are tried."""


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """The settings of an audit."""

    max_seconds: float = 300.0
    smallest_bias: float = 0.2
    """Relative change of the odds of the likeliest token that a lossless verdict excludes."""
    number_format: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.max_seconds <= 0 or self.smallest_bias <= 0:
            raise ValueError("max_seconds and smallest_bias must be above 0")


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """The completion that ended an audit, one of those in flight."""

    url: str
    """Of the server, or of the reference."""
    body: Mapping[str, Any]
    error: str
    is_server_alive: bool
    """Whether it answers a greedy request for one token afterwards."""


@dataclass(slots=True)
class Audit:
    """What is known so far. `run` fills it."""

    server: Server
    config: AuditConfig
    reference: Server | None = None
    on_progress: Callable[[str], None] = lambda text: None
    greedy: GreedyResult = field(default_factory=GreedyResult)
    sampled: SampledResult = field(default_factory=lambda: SampledResult(Evidence()))
    features: FeatureResults = field(default_factory=FeatureResults)
    acceptance: AcceptanceResult = field(default_factory=AcceptanceResult)
    error: str | None = None
    """What ended the audit early."""
    failed_request: FailedRequest | None = None
    failures: list[str] = field(default_factory=list)
    """What the server fails on and survives."""
    is_interrupted: bool = False
    num_drafted: float | None = None
    """Draft tokens during the audit, as the server's metrics count them; None if they do not, or
    fell."""
    seconds: float = 0.0
    phase: str = "probe"
    is_sampling: bool = False
    """Sampled requests were sent, so drafts of them verified."""

    async def run(self) -> None:
        """Run all checks. Raises AuditError if the server cannot be audited at all."""
        start_s = time.monotonic()
        deadline_s = start_s + self.config.max_seconds
        before: float | None = None
        try:
            async with asyncio.timeout(self.config.max_seconds):
                before = await self.server.num_drafted()
                await self._run(deadline_s)
        except TimeoutError:
            limit = f"--max-seconds {self.config.max_seconds:g}"
            self.error = f"the time was over ({limit}) during the check of {self.phase}"
        except ServerError as error:
            await self._note_failure(error)
        except asyncio.CancelledError:
            self.is_interrupted = True
            self.error = f"interrupted during the check of {self.phase}"
            raise
        finally:
            self.seconds = time.monotonic() - start_s
        if before is not None:
            await self._count_drafts(before)

    async def _run(self, deadline_s: float) -> None:
        await self._probe()
        truth = Truth(self.reference or self.server)
        self._begin("greedy answers")
        given = self.config.number_format
        await check_greedy(self.server, truth, PROMPTS, self.greedy, given)
        self.sampled.evidence.noise_nats = self._sampling_noise_nats()
        if self.greedy.wrong:
            await self._shrink(truth)
            return
        self._begin("plain sampled answers")
        check = SampledCheck(
            self.server, truth, self.sampled, seed=self.config.seed, on_wave=self._show_wave
        )
        await check.choose_prompts(PROMPTS, REPETITIVE)
        self.is_sampling = True
        await check.begin(PLAIN_CASES)
        await check.settle(PLAIN_CASES)
        target_bias = self.config.smallest_bias
        await check.run(PLAIN_CASES, target_bias=max(_PLAIN_BIAS, target_bias))
        if self.sampled.is_found:
            await self._check_control(check)
            return
        self._begin("sampling parameters")
        self.failures += await self.server.probe_parameters()
        self._begin("features")
        await check_features(self.server, PROMPTS[1], self.features)
        self._begin("sampled answers")
        await check.run(sampling_cases(self.server.support), target_bias=target_bias)
        if self.sampled.is_found:
            await self._check_control(check)
        self._begin("acceptance")
        await self._check_acceptance(deadline_s)

    async def _check_control(self, check: SampledCheck) -> None:
        """After a fault: whether tokens without drafts have it too."""
        if not self.sampled.is_control_wrong:
            self._begin("the same tokens without drafts")
            await check.control()

    async def _note_failure(self, error: ServerError) -> None:
        failing, name = self.server, "server"
        if self.reference is not None and error.url == self.reference.url != self.server.url:
            failing, name = self.reference, "reference"
        # Before the server is asked: an interruption meanwhile must not leave it out.
        self.error = f"a request failed during the check of {self.phase}: {error}"
        is_alive = await failing.is_alive()
        self.error += f"; the {name} " + (
            "still answers others" if is_alive else "does not answer any more"
        )
        if error.body is not None:
            self.failed_request = FailedRequest(failing.url, error.body, str(error), is_alive)

    async def _count_drafts(self, before: float) -> None:
        after = await self.server.num_drafted()
        if after is not None and after >= before:
            self.num_drafted = after - before

    def _sampling_noise_nats(self) -> float:
        """The root mean square, which sampled tokens pay for."""
        if not self.server.support.shows_token_ids:
            return 0.0  # each answer is judged by its own log-probabilities
        noise_nats = self.greedy.noise_rms_nats
        if noise_nats is None:
            noise_nats = TYPICAL_NATS[self.greedy.number_format or "bfloat16"]
        return min(noise_nats, NEAR_TIE_NATS["bfloat16"])

    async def _shrink(self, truth: Truth) -> None:
        """Replace the first wrong token by one after a shorter prompt."""
        if self.server.support.shows_token_ids:
            first = self.greedy.wrong[0]
            limit = self.greedy.near_tie_nats
            self.greedy.wrong[0] = await shrink(self.server, truth, first, near_tie_nats=limit)

    async def _probe(self) -> None:
        support = await self.server.probe()
        if self.reference is not None:
            theirs = await self.reference.probe(model=support.model)
            if not (theirs.shows_token_ids and support.shows_token_ids and theirs.num_logprobs):
                raise AuditError(
                    "a reference needs token ids and log-probabilities from both servers "
                    "(vLLM: return_token_ids, logprobs)"
                )
        elif not support.num_logprobs:
            raise AuditError(
                "the server shows no log-probabilities, so there is nothing to compare its answers "
                "with; give a server of the same model without speculation with --reference"
            )

    async def _check_acceptance(self, deadline_s: float) -> None:
        """Ends before the deadline, which would leave the verdict open."""
        share_s = _ACCEPTANCE_SHARE * self.config.max_seconds
        left_s = 0.9 * (deadline_s - time.monotonic())
        try:
            async with asyncio.timeout(min(share_s, left_s)):
                await check_acceptance(self.server, PROMPTS, self.acceptance)
        except TimeoutError:
            self.acceptance.why_not = (
                f"{share_s:.0f} s, a quarter of the time, were not enough"
                if share_s < left_s
                else "too little time was left (--max-seconds)"
            )
        except ServerError as error:
            self.acceptance.failure = str(error)

    def _begin(self, phase: str) -> None:
        self.phase = phase
        self.on_progress(phase)

    def _show_wave(self, result: SampledResult) -> None:
        evidence = result.evidence
        bias = "no bias yet" if result.bias is None else f"a bias of {result.bias:.0%}"
        self.on_progress(
            f"sampled answers: {evidence.pooled.num_tokens} tokens, ln e = {evidence.log_e:.1f} "
            f"(lossy from 6.9), {bias} would be found"
        )

    @property
    def ends_on_samples(self) -> bool:
        """Whether the audited server ended after sampled requests began."""
        failed = self.failed_request
        if failed is None or failed.url != self.server.url:
            return False
        return self.is_sampling and not failed.is_server_alive

    def decision(self) -> Decision:
        """The verdict about what is known so far."""
        return decide(
            self.greedy,
            self.sampled,
            self.features,
            self.acceptance,
            target_bias=self.config.smallest_bias,
            saw_drafts=self.server.is_probed and self.server.support.shows_drafts,
            has_reference=self.reference is not None,
            error=self.error,
            failures=self.failures,
            seconds=self.seconds,
        )
