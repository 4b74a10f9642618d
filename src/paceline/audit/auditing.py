"""Run the checks of an audit in turn, within its time, and keep what they found so far.

An audit that ends early, by its deadline, an error or Ctrl-C, leaves the results of the checks that
it finished, and the partial ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from paceline.audit.checks.acceptance import AcceptanceResult, check_acceptance
from paceline.audit.checks.features import FeatureResults, check_features
from paceline.audit.checks.greedy import GreedyResult, check_greedy
from paceline.audit.checks.sampled import SampledCheck, SampledResult
from paceline.audit.checks.shrinking import shrink
from paceline.audit.prompts import PROMPTS, REPETITIVE
from paceline.audit.server.server import MIN_DRAFTED, Server
from paceline.audit.server.transport import ServerError
from paceline.audit.server.truth import Truth
from paceline.audit.statistics.evidence import Evidence
from paceline.audit.statistics.greedy import NEAR_TIE_NATS
from paceline.audit.statistics.noise import TYPICAL_NATS
from paceline.audit.values import AuditError
from paceline.audit.verdict import Decision, decide

_ACCEPTANCE_SHARE = 0.25
"""Of the time: acceptance is not part of the verdict."""


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
    is_interrupted: bool = False
    num_drafted: float | None = None
    """Draft tokens during the audit, as the server's metrics count them; None if they do not."""
    seconds: float = 0.0
    phase: str = "probe"

    async def run(self) -> None:
        """Run all checks. Raises AuditError if the server cannot be audited at all."""
        start_s = time.monotonic()
        try:
            async with asyncio.timeout(self.config.max_seconds):
                before = await self.server.num_drafted()
                await self._run()
                after = await self.server.num_drafted()
                if before is not None and after is not None:
                    self.num_drafted = after - before
        except TimeoutError:
            limit = f"--max-seconds {self.config.max_seconds:g}"
            self.error = f"the time was over ({limit}) during the check of {self.phase}"
        except ServerError as error:
            self.error = f"a request failed during the check of {self.phase}: {error}"
        except asyncio.CancelledError:
            self.is_interrupted = True
            self.error = f"interrupted during the check of {self.phase}"
            raise
        finally:
            self.seconds = time.monotonic() - start_s

    async def _run(self) -> None:
        await self._probe()
        truth = Truth(self.reference or self.server)
        self._begin("greedy answers")
        given = self.config.number_format
        await check_greedy(self.server, truth, PROMPTS, self.greedy, given)
        self.sampled.evidence.noise_nats = self._sampling_noise_nats()
        if self.greedy.wrong:
            await self._shrink(truth)
            return
        self._begin("features")
        await check_features(self.server, PROMPTS[1], self.features)
        self._begin("acceptance")
        await self._check_acceptance()
        self._begin("sampled answers")
        check = SampledCheck(
            self.server,
            truth,
            self.sampled,
            target_bias=self.config.smallest_bias,
            seed=self.config.seed,
            on_wave=self._show_wave,
        )
        await check.run(PROMPTS, REPETITIVE)

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

    async def _check_acceptance(self) -> None:
        try:
            async with asyncio.timeout(_ACCEPTANCE_SHARE * self.config.max_seconds):
                await check_acceptance(self.server, PROMPTS, self.acceptance)
        except TimeoutError:
            self.acceptance.why_not = "it took more than a quarter of the time"
        except ServerError as error:
            self.acceptance.why_not = f"a request failed: {error}"

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

    def decision(self) -> Decision:
        """The verdict about what is known so far."""
        return decide(
            self.greedy,
            self.sampled,
            self.features,
            self.acceptance,
            target_bias=self.config.smallest_bias,
            saw_drafts=self._saw_drafts(),
            has_reference=self.reference is not None,
            error=self.error,
        )

    def _saw_drafts(self) -> bool:
        """Whether streams, the server's metrics or the check of acceptance show drafts."""
        if not self.server.is_probed:
            return False
        per_event = self.server.support.tokens_per_event or 0.0
        accepted = (*self.acceptance.after_drafting, 0.0)
        is_accepted = per_event >= MIN_DRAFTED or max(accepted) >= MIN_DRAFTED - 1
        return is_accepted or bool(self.num_drafted)
