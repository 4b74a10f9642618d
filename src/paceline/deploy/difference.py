"""Compare two rendered deployments: which resources change, where, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import yaml

Resource = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One resource that is added, removed or changed."""

    kind: Literal["added", "removed", "changed"]
    resource: str
    """Such as Deployment/engine-main."""
    fields: tuple[str, ...] = ()
    """Of a changed resource: path, old and new value, in the order of the paths."""


def resources_of(files: Mapping[str, str]) -> dict[str, Resource]:
    """The resources that `kubectl apply -k` applies, by kind and name.

    `files` is the text of every file by its path.
    """
    names = yaml.safe_load(files["kustomization.yaml"])["resources"]
    return {
        f"{document['kind']}/{document['metadata']['name']}": document
        for name in names
        for document in yaml.safe_load_all(files[name])
    }


def compare(old: Mapping[str, Resource], new: Mapping[str, Resource]) -> list[Change]:
    """Every change, sorted by resource.

    >>> compare({}, {"Service/a": {}})
    [Change(kind='added', resource='Service/a', fields=())]
    """
    changes = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            changes.append(Change("removed", name))
        elif name not in old:
            changes.append(Change("added", name))
        elif old[name] != new[name]:
            before, after = dict(_leaves(old[name])), dict(_leaves(new[name]))
            changes.append(Change("changed", name, tuple(_changed_fields(before, after))))
    return changes


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


def _changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old != new:
            yield f"{path}: {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    first, newline, _ = text.partition("\n")
    return f"{first} …" if newline else first


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar with its path; entries of lists that have a name are found by it."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            name = value.get("name") if isinstance(value, Mapping) else None
            yield from _leaves(value, f"{path}[{index if name is None else name}]")
    elif isinstance(node, str) and path.endswith(".yaml"):
        yield from _leaves(yaml.safe_load(node), path)
    else:
        yield path, node
