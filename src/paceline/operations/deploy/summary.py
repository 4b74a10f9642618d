"""The summary of a deployment: its form, and what a change of it alters in GPUs, speed and rent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from paceline.operations.deploy.values import DeployError

SUMMARY = "deployment.json"
SCHEMA_VERSION = 1


def summary_of(text: str) -> Mapping[str, Any]:
    """The summary in a file; raises `DeployError` for one that `cost_lines` cannot read."""
    try:
        summary: Any = json.loads(text)
    except ValueError as error:
        raise DeployError(f"{SUMMARY} is not valid JSON: {error}") from None
    version = summary.get("schema_version") if isinstance(summary, dict) else None
    if isinstance(version, int) and version != SCHEMA_VERSION:
        raise DeployError(f"{SUMMARY} has version {version}; this release reads {SCHEMA_VERSION}")
    try:
        cost_lines(summary, summary)
    except (KeyError, TypeError, ValueError) as error:
        raise DeployError(
            f"{SUMMARY} is no summary of `paceline deploy render` ({type(error).__name__}: {error})"
        ) from None
    return dict(summary)


def cost_lines(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changes in GPUs, capacity and rent, from two summaries."""
    before, after = old["cost"], new["cost"]
    tokens = [
        sum(
            pool["min_replicas"] * pool["output_tokens_per_s_per_replica"]
            for pool in summary["pools"]
        )
        for summary in (old, new)
    ]
    slots = [
        sum(pool["min_replicas"] * pool["slots_per_replica"] for pool in summary["pools"])
        for summary in (old, new)
    ]
    return [
        f"tier                    {old['tier']} -> {new['tier']}",
        f"GPUs                    {old['gpus']} {old['gpu']} -> {new['gpus']} {new['gpu']}",
        f"GPUs at most            {old['gpus_at_most']} -> {new['gpus_at_most']}",
        f"requests at once        {slots[0]:,} -> {slots[1]:,}",
        f"output tokens/s         {tokens[0]:,.0f} -> {tokens[1]:,.0f}",
        f"rent a month            {_money(before, after, 'usd_per_month')}",
        f"rent a month at most    {_money(before, after, 'usd_per_month_at_most')}",
        "rent per 1M tokens      "
        + _money(before, after, "usd_per_million_output_tokens_at_full_load"),
    ]


def _money(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> str:
    old, new = before[name], after[name]
    digits = 2 if name.startswith("usd_per_million") else 0
    shown = ["unknown" if value is None else f"${value:,.{digits}f}" for value in (old, new)]
    line = f"{shown[0]} -> {shown[1]}"
    if old is not None and new is not None:
        sign = "-" if new < old else "+"
        line += f" ({sign}${abs(new - old):,.{digits}f})"
    return line
