"""Render an audit as lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

_WIDTH = 100


def render_lines(document: Mapping[str, Any]) -> list[str]:
    """The verdict, its reasons, what was checked, and a request that shows the fault."""
    lines = [f"{document['verdict']}: {document['url']}"]
    lines += [_item(reason) for reason in document["reasons"]]
    lines += [_item(f"finding: {finding}") for finding in document["findings"]]
    lines.append("")
    lines += _checks(document)
    if (smallest := document["smallest_failing_request"]) is not None:
        ends_it = [
            "A request that ends the server each time"
            if one["ends_again"]
            else "A request that ended the server, and may end it again"
            for one in document["deaths"]
            if one["body"] == smallest["body"]
        ]
        title = ends_it[0] if ends_it else "A request that shows it"
        lines += ["", f"{title}:", smallest["curl"]]
        lines += textwrap.wrap(smallest["expect"], _WIDTH)
    failed, shown = document["failed_request"], (smallest or {}).get("body")
    if failed is not None and failed["body"] != shown:
        title = "The request that failed, of those in flight"
        if not failed["is_server_alive"]:
            title += "; it may end the server again"
        lines += ["", f"{title}:", failed["curl"]]
    for issue in document["known_issues"]:
        lines += ["", f"Known issue, if {issue['applies_if']}:"]
        lines += [f"{issue['url']}", *textwrap.wrap(issue["summary"], _WIDTH)]
    return lines


def _checks(document: Mapping[str, Any]) -> list[str]:
    greedy, sampled, rates = document["greedy"], document["sampled"], document["error_rates"]
    acceptance = document["acceptance"]
    bias = rates["smallest_bias"]
    power = "no bias would have been found yet"
    if bias is not None:
        shift = rates["smallest_bias_as_probability"]
        power = (
            f"{bias:.0%} in the odds of the likeliest token ({shift:.1%} in its probability) would "
            "be found with probability 0.95"
        )
    rows = [
        (
            "greedy",
            f"{greedy['num_tokens']} tokens, {greedy['num_near_ties']} near-ties "
            f"(within {greedy['near_tie_nats']:g} nats), {greedy['num_wrong']} wrong",
        ),
        (
            "sampled",
            f"{sampled['num_answers']} answers, {sampled['num_drafted_tokens']} tokens after the "
            f"first; e-value 10^{sampled['log10_e_value']:.1f}, lossy from 10^3 "
            f"(false alarms: at most {rates['false_alarm']:.1%}); {power}",
        ),
        *((one["name"], f"{one['status']}: {one['detail']}") for one in document["features"]),
    ]
    if document["truth"]["bypasses_prefix_cache"] is False:
        text = (
            "log-probabilities may come from the prefix cache, which hides faults that corrupt the "
            "cache itself"
        )
        rows.insert(0, ("expected", text))
    if acceptance["after_off"]:
        means = [
            sum(found) / len(found)
            for found in (acceptance["after_drafting"], acceptance["after_off"])
            if found
        ]
        text = " before, ".join(f"{mean:.2f}" for mean in means)
        rows.append(("acceptance", f"{text} drafts per step after drafting was off"))
    else:
        why_not = acceptance["not_measured"] or acceptance["failure"] or "the audit ended before"
        rows.append(("acceptance", f"not measured: {why_not}"))
    server = document["server"] or {}
    if (per_event := server.get("tokens_per_event")) is not None:
        rows.append(("drafting", f"{per_event:.2f} tokens per event of a greedy stream"))
    drafting = sampled["drafting"]
    if drafting["num_draft_tokens"] is not None:
        rows.append(
            (
                "draft tokens",
                f"{drafting['num_draft_tokens']:.0f} for {drafting['num_tokens_after_first']} "
                "sampled tokens after the first, as the server counts them",
            )
        )
    rows.append(("load", f"{document['num_requests']} requests in {document['seconds']:.0f} s"))
    return [f"{name + ':':19}{text}" for name, text in rows]


def _item(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="- ", subsequent_indent="  ")
