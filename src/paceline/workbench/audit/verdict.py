"""The verdict of an audit, from what its checks found. Pure.

`lossy`: a greedy token is wrong, a feature is, the e-value of all sampled tests together reached
1000 and the same places are right without drafts, or an ordinary request ended the server.
`lossless`: everything was checked on a server that drafts, nothing was found, and a bias of the
stated size would have been. Otherwise `undecided`, with reasons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from paceline.workbench.audit.checks.acceptance import AcceptanceResult
from paceline.workbench.audit.checks.features import FeatureResults
from paceline.workbench.audit.checks.greedy import GreedyResult
from paceline.workbench.audit.checks.sampled import FOUND_ABOVE, SampledResult
from paceline.workbench.audit.statistics.evidence import ALONG, BETWEEN
from paceline.workbench.audit.statistics.greedy import NEAR_TIE_NATS
from paceline.workbench.audit.statistics.power import growth_needed

FALSE_ALARM = 1 / FOUND_ABOVE
_MARGIN = 1.3
"""On the time that more samples are expected to take: later samples need new prefixes as well."""


class Verdict(StrEnum):
    LOSSLESS = "lossless"
    LOSSY = "lossy"
    UNDECIDED = "undecided"


EXIT_CODES = {Verdict.LOSSLESS: 0, Verdict.LOSSY: 1, Verdict.UNDECIDED: 3}


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict and why."""

    verdict: Verdict
    reasons: tuple[str, ...]
    findings: tuple[str, ...] = ()
    """What was found that does not change the output."""


def decide(
    greedy: GreedyResult,
    sampled: SampledResult,
    features: FeatureResults,
    acceptance: AcceptanceResult,
    *,
    target_bias: float,
    saw_drafts: bool,
    has_reference: bool = False,
    error: str | None = None,
    failures: Sequence[str] = (),
    deaths: Sequence[str] = (),
    single_deaths: Sequence[str] = (),
    seconds: float = 0.0,
) -> Decision:
    """The verdict about an endpoint. `error`: what ended the audit early, after `seconds`.

    `saw_drafts`: streams showed drafts, which decides where the server does not count them; without
    drafts nothing was verified. `failures`: what the server fails on. `deaths`: which requests,
    sent alone, ended it; `single_deaths`: which did so once, and not when they were sent again, so
    that the cause may be another.
    """
    findings = _findings(acceptance)
    lossy: list[str] = []
    unclear = _noise_reasons(greedy, has_reference)
    is_other_model = has_reference and bool(unclear)
    greedy_fault = _greedy_fault(greedy)
    if greedy_fault is not None:
        is_unclear = is_other_model or bool(greedy.wrong_without_drafts)
        (unclear if is_unclear else lossy).append(greedy_fault)
    sampled_fault = _sampled_fault(sampled)
    if sampled_fault is not None:
        is_unclear = is_other_model or sampled.is_control_wrong or not sampled.control.is_right
        (unclear if is_unclear else lossy).append(sampled_fault)
    if sampled.num_too_long:
        lossy.append(f"{sampled.num_too_long} answers have more tokens than max_tokens")
    lossy += [f"{one.name}: {one.detail}" for one in features.wrong]
    lossy += deaths
    if lossy:
        return Decision(Verdict.LOSSY, tuple(lossy), findings)
    if error is not None:
        unclear.append(error)
    if not greedy.is_finished:
        unclear.append("the greedy answers were not judged")
    unclear += [f"{one.name}: {one.detail}" for one in features.failed]
    unclear += [f"the server fails on {one}" for one in failures]
    unclear += single_deaths
    if acceptance.failure is not None:
        unclear.append(f"acceptance: the server fails: {acceptance.failure}")
    unclear += _drafting_reasons(sampled, saw_drafts)
    if sampled_fault is None and (sampled.bias is None or sampled.bias > target_bias):
        unclear.append(_lack_of_power(sampled, target_bias, seconds))
    if unclear:
        return Decision(Verdict.UNDECIDED, tuple(unclear), findings)
    reason = (
        f"{greedy.num_tokens} greedy tokens are the most likely ones or near-ties, and "
        f"{sampled.evidence.pooled.num_tokens} sampled tokens follow their distributions; a bias "
        f"of {sampled.bias:.0%} in the odds of the likeliest token would have been found with "
        "probability 0.95. This is relative to the served weights: what their quantization changed "
        "is not judged (paceline quality)"
    )
    return Decision(Verdict.LOSSLESS, (reason,), findings)


def _noise_reasons(greedy: GreedyResult, has_reference: bool) -> list[str]:
    """Why the truth is not comparable with the server's answers; empty if it is."""
    noise_nats = greedy.noise_nats
    if noise_nats is None:
        # Only a reference comes without noise; first tokens are never drafted.
        is_wrong_at_once = any(one.deviation.position == 0 for one in greedy.wrong)
        if has_reference and is_wrong_at_once:
            return ["first greedy tokens are wrong too: the reference may be another model"]
        return []
    if noise_nats <= NEAR_TIE_NATS["bfloat16"]:
        return []
    text = (
        f"two computations of the same log-probabilities differ by {noise_nats:.2g} nats in the "
        "median, more than rounding explains"
    )
    if has_reference:
        text += ": the reference may be another model"
    return [text]


def _drafting_reasons(sampled: SampledResult, saw_drafts: bool) -> list[str]:
    """Why verification was not tested; empty if it was."""
    if sampled.drafting.is_counted:
        return [] if sampled.drafting.why_not is None else [sampled.drafting.why_not]
    if saw_drafts:
        return []
    return [
        "no drafts were seen, so no verification was tested: streams show one token per event, "
        "several in every one, as without drafts too, or none, and no metric counts drafts"
    ]


def _lack_of_power(sampled: SampledResult, target_bias: float, seconds: float) -> str:
    evidence = sampled.evidence
    num_tokens = evidence.pooled.num_tokens
    found = "no bias" if sampled.bias is None else f"a bias of {sampled.bias:.0%} and more"
    text = f"with {num_tokens} sampled tokens {found} would have been found"
    if not num_tokens:
        return f"{text}; give the audit more time (--max-seconds)"
    growth = growth_needed(
        evidence.top_probs,
        bias=target_bias,
        found_above=FOUND_ABOVE,
        noise_nats=evidence.noise_nats,
    )
    if growth is None:
        return (
            f"{text}; {target_bias:.0%} cannot be, because two computations of the same "
            f"log-probabilities differ by {evidence.noise_nats:.2g} nats (root mean square); ask "
            "for a larger bias (--smallest-bias)"
        )
    more_s = _MARGIN * sampled.seconds * max(0.0, growth - 1)
    return (
        f"{text}, not yet {target_bias:.0%}, which takes about {growth * num_tokens:.0f}; at the "
        f"rate of this audit give it about {more_s:.0f} s more "
        f"(--max-seconds {math.ceil((seconds + more_s) / 10) * 10})"
    )


def _greedy_fault(greedy: GreedyResult) -> str | None:
    if not greedy.wrong:
        return None
    worst = max(greedy.wrong, key=lambda one: one.deviation.gap_nats)
    text = (
        f"{len(greedy.wrong)} of {greedy.num_tokens} greedy tokens are not the most likely ones, "
        f"by up to {worst.deviation.gap_nats:.3g} nats "
        f"(near-ties are within {greedy.near_tie_nats:g})"
    )
    if greedy.wrong_without_drafts:
        text += "; without drafts tokens are wrong too, so speculation is not the cause"
    return text


def _sampled_fault(sampled: SampledResult) -> str | None:
    if not sampled.is_found:
        return None
    evidence = sampled.evidence
    name, group = max(
        [("all drafted tokens", evidence.pooled), *evidence.groups.items()],
        key=lambda item: item[1].log_e,
    )
    e_value = (
        f"an e-value of 10^{evidence.log_e / math.log(10):.1f} after {sampled.num_samples} answers"
    )
    if name in (ALONG, BETWEEN):
        text = f"sampled tokens: {name} depend on each other ({e_value})"
    else:
        text = (
            f"sampled tokens do not follow the model's distribution ({e_value}); strongest in: "
            f"{name}, as with: {group.best_alternative}; the likeliest token was expected for "
            f"{group.expected_top / group.num_tokens:.1%} of {group.num_tokens} tokens and drawn "
            f"for {group.observed_top / group.num_tokens:.1%}"
        )
    if sampled.is_control_wrong:
        return (
            f"{text}; the first tokens, which are never drafted, do not follow it either: the "
            "server's log-probabilities are not those of its sampler, or it applies a parameter of "
            "its own"
        )
    if sampled.control.is_right:
        return (
            f"{text}; {sampled.control.num_draws} tokens drawn after the same prefixes without "
            "drafts follow it"
        )
    return (
        f"{text}; whether tokens drawn after the same prefixes without drafts follow it was not "
        "found out: speculation may not be the cause"
    )


def _findings(acceptance: AcceptanceResult) -> tuple[str, ...]:
    if not acceptance.collapses:
        return ()
    before = sum(acceptance.after_drafting) / len(acceptance.after_drafting)
    after = sum(acceptance.after_off) / len(acceptance.after_off)
    return (
        f"acceptance falls from {before:.2f} to {after:.2f} drafts per step after drafting was "
        "off: the draft model seems to continue from a stale KV cache. The output is not affected.",
    )
