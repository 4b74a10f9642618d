"""Render an audit as the JSON document of `paceline audit --json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from paceline.workbench.audit.auditing import Audit
from paceline.workbench.audit.checks.greedy import WrongToken
from paceline.workbench.audit.failed_requests import Death
from paceline.workbench.audit.known_issues import known_issues
from paceline.workbench.audit.server.bodies import render_curl
from paceline.workbench.audit.smallest import SmallestRequest, smallest_failing_request
from paceline.workbench.audit.statistics.evidence import GroupEvidence
from paceline.workbench.audit.statistics.power import probability_shift
from paceline.workbench.audit.verdict import FALSE_ALARM, Verdict

SCHEMA_VERSION = 1
_MAX_LISTED = 20


def render_document(audit: Audit, environment: Mapping[str, Any]) -> dict[str, Any]:
    """The whole report."""
    decision = audit.decision()
    support = _support(audit)
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": decision.verdict.value,
        "reasons": list(decision.reasons),
        "findings": list(decision.findings),
        "url": audit.server.url,
        "reference": None if audit.reference is None else audit.reference.url,
        "server": support,
        "truth": _truth(audit),
        "num_drafted": audit.num_drafted,
        "error_rates": {
            "false_alarm": FALSE_ALARM,
            "false_alarm_of": "all sampled tests together, whenever they are looked at",
            "power": 0.95,
            "smallest_bias": audit.sampled.bias,
            "smallest_bias_of": "relative change of the odds of the likeliest token",
            "smallest_bias_as_probability": _shift(audit),
            "target_bias": audit.config.smallest_bias,
        },
        "greedy": _greedy(audit),
        "sampled": _sampled(audit),
        "features": [
            {"name": one.name, "status": one.status, "detail": one.detail}
            for one in audit.features.found
        ],
        "acceptance": {
            "after_drafting": audit.acceptance.after_drafting,
            "after_off": audit.acceptance.after_off,
            "collapses": audit.acceptance.collapses,
            "not_measured": audit.acceptance.why_not,
            "failure": audit.acceptance.failure,
        },
        "smallest_failing_request": _smallest(audit) if decision.verdict is Verdict.LOSSY else None,
        "deaths": [_death(audit, one) for one in audit.deaths],
        "failed_request": _failed(audit),
        "known_issues": [asdict(issue) for issue in _issues(audit)],
        "num_requests": audit.server.num_requests
        + (0 if audit.reference is None else audit.reference.num_requests),
        "seconds": audit.seconds,
        "is_interrupted": audit.is_interrupted,
        "config": asdict(audit.config),
        "environment": dict(environment),
    }


def _support(audit: Audit) -> dict[str, Any] | None:
    return asdict(audit.server.support) if audit.server.is_probed else None


def _truth(audit: Audit) -> dict[str, Any]:
    """Where the true log-probabilities come from, and whether cached blocks may give them."""
    source = audit.reference or audit.server
    is_fresh = None
    if source.is_probed:
        is_fresh = source.support.scores_prompts or source.support.cache_salt
    return {"url": source.url, "bypasses_prefix_cache": is_fresh}


def _failed(audit: Audit) -> dict[str, Any] | None:
    failed = audit.failed_request
    if failed is None:
        return None
    return {
        "body": dict(failed.body),
        "curl": render_curl(failed.url, failed.body),
        "error": failed.error,
        "is_server_alive": failed.is_server_alive,
    }


def _issues(audit: Audit) -> list[Any]:
    if not audit.server.is_probed:
        return []
    return known_issues(
        audit.server.support,
        audit.greedy,
        audit.sampled,
        audit.acceptance,
        ends_on_samples=audit.ends_on_samples,
    )


def _shift(audit: Audit) -> float | None:
    bias = audit.sampled.bias
    if bias is None:
        return None
    return probability_shift(audit.sampled.evidence.top_probs, bias)


def _greedy(audit: Audit) -> dict[str, Any]:
    greedy = audit.greedy
    return {
        "num_tokens": greedy.num_tokens,
        "num_near_ties": greedy.num_near_ties,
        "near_tie_nats": greedy.near_tie_nats,
        "number_format": greedy.number_format,
        "noise_nats": greedy.noise_nats,
        "noise_rms_nats": greedy.noise_rms_nats,
        "noise_high_nats": greedy.noise_high_nats,
        "num_prompts_with_and_without_drafts": greedy.num_compared,
        "num_different": greedy.num_different,
        "num_wrong": len(greedy.wrong),
        "wrong": [_wrong(one) for one in greedy.wrong[:_MAX_LISTED]],
        "num_wrong_without_drafts": len(greedy.wrong_without_drafts),
        "is_finished": greedy.is_finished,
    }


def _wrong(one: WrongToken) -> dict[str, Any]:
    deviation = one.deviation
    return {
        "prompt": one.prompt,
        "position": deviation.position,
        "token": deviation.token_id,
        "most_likely_token": deviation.best_token_id,
        "gap_nats": deviation.gap_nats,
    }


def _sampled(audit: Audit) -> dict[str, Any]:
    sampled = audit.sampled
    evidence = sampled.evidence
    return {
        "num_answers": sampled.num_samples,
        "seconds": sampled.seconds,
        "num_drafted_tokens": evidence.pooled.num_tokens,
        "log10_e_value": evidence.log_e / math.log(10),
        "lossy_from_log10_e_value": -math.log10(FALSE_ALARM),
        "is_lossy": sampled.is_found and sampled.control.is_right and not sampled.is_control_wrong,
        "is_found": sampled.is_found,
        "control": {
            "num_draws": sampled.control.num_draws,
            "log10_ratio": sampled.control.log_ratio / math.log(10),
            "is_finished": sampled.control.is_finished,
            "is_wrong": sampled.is_control_wrong,
        },
        "drafting": {
            "num_tokens_after_first": sampled.drafting.num_tokens,
            "num_draft_tokens": sampled.drafting.num_drafts,
            "counter_has_fallen": sampled.drafting.has_fallen,
        },
        "drafted_tokens": _group(evidence.pooled),
        "first_tokens": _group(evidence.control),
        "groups": {name: _group(group) for name, group in evidence.groups.items()},
        "cases": [case.name for case in sampled.cases],
        "num_too_long": sampled.num_too_long,
    }


def _group(group: GroupEvidence) -> dict[str, Any]:
    return {
        "num_tokens": group.num_tokens,
        "log10_e_value": group.log_e / math.log(10),
        "best_alternative": group.best_alternative if group.num_tokens else None,
        "expected_likeliest_tokens": group.expected_top,
        "observed_likeliest_tokens": group.observed_top,
    }


def _death(audit: Audit, death: Death) -> dict[str, Any]:
    return {
        "body": dict(death.body),
        "curl": render_curl(audit.server.url, death.body),
        "error": death.error,
        "is_back": death.is_back,
        "ends_again": death.ends_again,
    }


def _smallest(audit: Audit) -> dict[str, Any] | None:
    """Of wrong answers first; else the shortest request that ended the server."""
    found = smallest_failing_request(audit.greedy, audit.sampled, audit.features)
    if found is not None:
        return _render_smallest(audit, found)
    deaths = [one for one in audit.deaths if one.ends_again is not False]
    if not deaths:
        return None
    death = min(deaths, key=lambda one: len(str(one.body)))
    return {
        "body": dict(death.body),
        "curl": render_curl(audit.server.url, death.body),
        "expect": f"an answer; the server ended instead ({death.error})",
        "observed": {"error": death.error},
    }


def _render_smallest(audit: Audit, found: SmallestRequest) -> dict[str, Any]:
    body = audit.server.body(found.request)
    return {
        "body": body,
        "curl": render_curl(audit.server.url, body),
        "expect": found.expect,
        "observed": dict(found.observed),
    }
