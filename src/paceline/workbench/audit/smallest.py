"""The smallest request that shows what an audit found. Pure.

For a greedy token: the prompt with no more tokens than needed. For sampled tokens: the case with
the fewest parameters among those whose evidence suffices, and the prompt and prefix that most
answers share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.workbench.audit.checks.features import FeatureResults
from paceline.workbench.audit.checks.greedy import GreedyResult
from paceline.workbench.audit.checks.sampled import FOUND_ABOVE, SampledResult
from paceline.workbench.audit.values import GREEDY, Request, Sample, SamplingCase, Token

_FEW = 30
"""Answers that share a prefix, at least, to state a share."""


@dataclass(frozen=True, slots=True)
class SmallestRequest:
    """A request to repeat, and what to look for in its answers."""

    request: Request
    expect: str
    observed: Mapping[str, Any]


def smallest_failing_request(
    greedy: GreedyResult, sampled: SampledResult, features: FeatureResults
) -> SmallestRequest | None:
    """The most decisive one; None if nothing failed."""
    if greedy.wrong:
        return _of_greedy(greedy)
    for feature in features.wrong:
        if feature.request is not None:
            return SmallestRequest(feature.request, feature.detail, {"feature": feature.name})
    return _of_sampled(sampled) if sampled.is_found else None


def _of_greedy(greedy: GreedyResult) -> SmallestRequest:
    """The shortest prompt, and its answer up to the wrong token."""
    one = min(greedy.wrong, key=lambda wrong: (len(wrong.prompt), wrong.deviation.position))
    deviation = one.deviation
    return SmallestRequest(
        Request(one.prompt, GREEDY, deviation.position + 1),
        f"token {deviation.position + 1} of the answer should be {deviation.best_token_id!r}, the "
        f"most likely one; the server gives {deviation.token_id!r}, {deviation.gap_nats:.3g} nats "
        "below it",
        {
            "token": deviation.token_id,
            "most_likely_token": deviation.best_token_id,
            "gap_nats": deviation.gap_nats,
            "prefix": list(one.answer[: deviation.position]),
        },
    )


def _of_sampled(sampled: SampledResult) -> SmallestRequest:
    case = _simplest_case(sampled)
    samples = [sample for sample in sampled.samples if sample.case.name == case.name]
    prompt, prefix, counts = _largest_group(samples)
    chosen = next(sample.case for sample in samples if sample.prompt == prompt)
    total = sum(counts.values())
    group = sampled.evidence.groups[case.name]
    ids = sampled.prompt_ids[prompt]
    return SmallestRequest(
        Request(ids or sampled.prompts[prompt], chosen, len(prefix) + 1, n=8),
        f"of {group.num_tokens} drafted tokens of this case, over all prompts, "
        f"{group.expected_top / max(group.num_tokens, 1):.1%} should be the likeliest one and "
        f"{group.observed_top / max(group.num_tokens, 1):.1%} are; repeat the request and compare "
        "the tokens after the prefix with a request for one token with logprobs",
        {
            "prompt": sampled.prompts[prompt],
            "prefix": list(prefix),
            "num_answers_with_prefix": total,
            "shares_after_prefix": {
                str(token): count / total for token, count in counts.most_common(8)
            },
            "case": chosen.name,
            "e_value_log10": group.log_e / math.log(10),
        },
    )


def _simplest_case(sampled: SampledResult) -> SamplingCase:
    """The case with the fewest parameters that is found on its own; else the likeliest to be."""
    groups = sampled.evidence.groups
    known = [case for case in sampled.cases if case.name in groups]
    found = [case for case in known if groups[case.name].log_e >= math.log(FOUND_ABOVE)]
    if found:
        return min(found, key=lambda case: case.num_parameters)
    return max(known, key=lambda case: groups[case.name].log_e)


def _largest_group(samples: Sequence[Sample]) -> tuple[int, tuple[Token, ...], Counter[Token]]:
    """The most frequent prompt and prefix with a drafted token after it."""
    counts: dict[tuple[int, tuple[Token, ...]], Counter[Token]] = {}
    for sample in samples:
        for end in range(1, len(sample.tokens)):
            place = sample.prompt, tuple(sample.tokens[:end])
            counts.setdefault(place, Counter())[sample.tokens[end]] += 1
    place = max(counts, key=lambda one: (counts[one].total() >= _FEW, counts[one].total()))
    return *place, counts[place]
