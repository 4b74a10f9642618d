"""Run the checks of an audit in turn, within its time, and keep what they found so far.

An audit that ends early, by its deadline, an error or Ctrl-C, leaves the results of the checks that
it finished, and the partial ones.

Requests that may end a server come last, each alone. A request that ends the server is a finding;
the audit waits until the server is back, sends that request once more, alone, to learn whether it
ends the server each time, and continues without that kind of request. If several
were in flight, the check is repeated with one request at a time, so that the one that ends the
server is known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from paceline.workbench.audit.checks.acceptance import AcceptanceResult, check_acceptance
from paceline.workbench.audit.checks.features import FEATURES, FeatureResults, check_feature
from paceline.workbench.audit.checks.greedy import GreedyResult, check_greedy
from paceline.workbench.audit.checks.sampled import (
    PLAIN_CASES,
    SampledCheck,
    SampledResult,
    sampling_cases,
)
from paceline.workbench.audit.checks.shrinking import shrink
from paceline.workbench.audit.failed_requests import Death, FailedRequest
from paceline.workbench.audit.prompts import PROMPTS, REPETITIVE
from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.transport import ServerError
from paceline.workbench.audit.server.truth import Truth
from paceline.workbench.audit.statistics.evidence import Evidence
from paceline.workbench.audit.statistics.greedy import NEAR_TIE_NATS
from paceline.workbench.audit.statistics.noise import TYPICAL_NATS
from paceline.workbench.audit.values import AuditError
from paceline.workbench.audit.verdict import Decision, decide

_ACCEPTANCE_SHARE = 0.25
"""Of the time: acceptance is not part of the verdict."""
_MAX_REPEATS = 2
"""Of a check in which the server was away, and no request is known to be the cause."""
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
    restart_seconds: float = 120.0
    """How long a server that ended is waited for, each time; not counted in `max_seconds`."""

    def __post_init__(self) -> None:
        if self.max_seconds <= 0 or self.smallest_bias <= 0:
            raise ValueError("max_seconds and smallest_bias must be above 0")
        if self.restart_seconds < 0:
            raise ValueError("restart_seconds must be at least 0")


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
    """What the server fails on and survives, or ended at under several requests."""
    deaths: list[Death] = field(default_factory=list)
    is_interrupted: bool = False
    num_drafted: float | None = None
    """Draft tokens during the audit, as the server's metrics count them; None if they do not, or
    fell."""
    seconds: float = 0.0
    phase: str = "probe"
    is_sampling: bool = False
    """Sampled requests were sent, so drafts of them verified."""
    has_restarted: bool = False
    _deadline_s: float = 0.0
    """Of the monotonic clock; later by what the server was waited for."""
    _timeout: asyncio.Timeout | None = None

    async def run(self) -> None:
        """Run all checks. Raises AuditError if the server cannot be audited at all."""
        start_s = time.monotonic()
        self._deadline_s = start_s + self.config.max_seconds
        before: float | None = None
        try:
            async with asyncio.timeout(self.config.max_seconds) as self._timeout:
                before = await self.server.num_drafted()
                await self._run()
        except TimeoutError:
            limit = f"--max-seconds {self.config.max_seconds:g}"
            self.error = f"the time was over ({limit}) during the check of {self.phase}"
        except ServerError as error:
            await self._note_failure(error)
        except asyncio.CancelledError:
            self.is_interrupted = True
            self.error = self.error or f"interrupted during the check of {self.phase}"
            raise
        finally:
            self.seconds = time.monotonic() - start_s
        if before is not None and not self.has_restarted:
            await self._count_drafts(before)

    async def _run(self) -> None:
        await self._probe()
        truth = Truth(self.reference or self.server)
        await self._attempt("greedy answers", lambda: self._check_greedy(truth))
        self.sampled.evidence.noise_nats = self._sampling_noise_nats()
        if self.greedy.wrong:
            await self._shrink(truth)
            return
        check = SampledCheck(
            self.server, truth, self.sampled, seed=self.config.seed, on_wave=self._show_wave
        )
        plain = "plain sampled answers"
        can_sample = await self._attempt(plain, lambda: self._begin_samples(check))
        if can_sample and not self.sampled.is_found:
            await self._attempt(plain, self._probe_choices)
            can_sample = await self._attempt(plain, lambda: self._check_plain_samples(check))
        if self.sampled.is_found:
            await self._check_control(check)
            return
        await self._attempt("acceptance", self._check_acceptance)
        first, *others = FEATURES
        await self._check_feature(first)
        if not can_sample:
            return
        await self._probe_parameters()
        for name in others:
            await self._check_feature(name)
        cases = sampling_cases(self.server.support)
        target_bias = self.config.smallest_bias
        await self._attempt("sampled answers", lambda: check.run(cases, target_bias=target_bias))
        if self.sampled.is_found:
            await self._check_control(check)

    async def _attempt(self, phase: str, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Do the work; False if it cannot be done, because the server ends, and it is back.

        Work whose request that was is not known is done again, one request at a time. Raises
        `ServerError` if a request fails for another reason, or the server does not come back.
        """
        self._begin(phase)
        num_repeats = 0
        while True:
            try:
                await work()
                return True
            except ServerError as error:
                # Before the server is asked: an interruption meanwhile must not leave it out.
                self.error = f"a request failed during the check of {self.phase}: {error}"
                if self._fails_at_reference(error) or await self.server.is_alive():
                    raise
                death = None
                if error.may_have_ended_it and error.body is not None:
                    death = Death(error.body, str(error), phase, is_back=False)
                    self.deaths.append(death)
                if not await self._wait_for_restart():
                    raise
                self.error = None
                if death is not None:
                    self.deaths[-1] = replace(death, is_back=True)
                    await self._repeat(self.deaths[-1])
                    return False
                self.failures.append(
                    f"a request during the check of {phase}, and did not answer for a time "
                    f"({error}); which request was the cause is not known"
                )
                num_repeats += 1
                if num_repeats > _MAX_REPEATS:
                    return False
                self.server.send_one_at_a_time()
                self._begin(f"{phase}, one request at a time")

    async def _repeat(self, death: Death) -> None:
        """Send the request of the last death once more, and note whether it ends the server again.

        Raises `ServerError` if the server does not come back.
        """
        self._begin(f"{death.phase}, the request that ended the server once more")
        try:
            await self.server.send_again(death.body)
        except ServerError as error:
            self.error = f"a request failed during the check of {self.phase}: {error}"
            if not await self.server.is_alive():
                ends_again = error.may_have_ended_it or None
                self.deaths[-1] = replace(death, is_back=False, ends_again=ends_again)
                if not await self._wait_for_restart():
                    raise
                self.deaths[-1] = replace(death, ends_again=ends_again)
                self.error = None
                return
            self.error = None
        self.deaths[-1] = replace(death, ends_again=False)

    async def _wait_for_restart(self) -> bool:
        """Whether the server is back in time; the audit's time is longer by the wait."""
        self.has_restarted = True
        self.on_progress(
            f"the server ended; waiting up to {self.config.restart_seconds:g} s until it is back"
        )
        begun_s = time.monotonic()
        timeout = self._timeout
        ends_s = None if timeout is None else timeout.when()
        if timeout is not None:
            timeout.reschedule(None)
        is_back = await self.server.is_back(self.config.restart_seconds)
        waited_s = time.monotonic() - begun_s
        self._deadline_s += waited_s
        if timeout is not None and ends_s is not None:
            timeout.reschedule(ends_s + waited_s)
        return is_back

    async def _check_greedy(self, truth: Truth) -> None:
        self.greedy = GreedyResult()
        await check_greedy(self.server, truth, PROMPTS, self.greedy, self.config.number_format)

    async def _begin_samples(self, check: SampledCheck) -> None:
        """A few at a time."""
        await check.choose_prompts(PROMPTS, REPETITIVE)
        self.is_sampling = True
        await check.begin(PLAIN_CASES)

    async def _probe_choices(self) -> None:
        self.failures += await self.server.probe_choices()

    async def _check_plain_samples(self, check: SampledCheck) -> None:
        """Some more, in parallel."""
        await check.settle(PLAIN_CASES)
        await check.run(PLAIN_CASES, target_bias=max(_PLAIN_BIAS, self.config.smallest_bias))

    async def _probe_parameters(self) -> None:
        """Each in a request of its own; a server that ends at one is asked for the next."""

        async def probe() -> None:
            self.failures += await self.server.probe_parameters()

        while not await self._attempt("sampling parameters", probe):
            continue

    async def _check_feature(self, name: str) -> None:
        await self._attempt(
            "features", lambda: check_feature(self.server, name, PROMPTS[1], self.features)
        )

    async def _check_control(self, check: SampledCheck) -> None:
        """After a fault: whether tokens without drafts have it too."""
        if not self.sampled.is_control_wrong:
            await self._attempt("the same tokens without drafts", check.control)

    def _fails_at_reference(self, error: ServerError) -> bool:
        reference = self.reference
        return reference is not None and error.url == reference.url != self.server.url

    async def _note_failure(self, error: ServerError) -> None:
        failing, name = self.server, "server"
        if self.reference is not None and self._fails_at_reference(error):
            failing, name = self.reference, "reference"
        # As above.
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

    async def _check_acceptance(self) -> None:
        """Ends before the deadline, which would leave the verdict open."""
        self.acceptance = AcceptanceResult()
        share_s = _ACCEPTANCE_SHARE * self.config.max_seconds
        left_s = 0.9 * (self._deadline_s - time.monotonic())
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
            if not error.is_refusal and not await self.server.is_alive():
                raise
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
        if any(death.body.get("temperature") for death in self.deaths):
            return True
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
            deaths=[str(death) for death in self.deaths if death.ends_again is not False],
            single_deaths=[str(death) for death in self.deaths if death.ends_again is False],
            seconds=self.seconds,
        )
