"""Named machines, read from data files in which every figure has its source.

A profile is a TOML file in `profiles/`. Every figure is `{ value = …, source = "…" }`; a missing
one, an unknown one and one without a source are refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any

from paceline.foundation.capacity.roofline import HardwareFigures, ModelFigures
from paceline.foundation.command_line.near_names import did_you_mean
from paceline.testing.policy_simulator.machines.cost import CostFunction, LinearCost
from paceline.testing.policy_simulator.machines.graphs import GraphSizes
from paceline.testing.policy_simulator.machines.machine import Machine
from paceline.testing.policy_simulator.machines.roofline import RooflineCost

_ENGINE_FIGURES = ("max_draft_length", "max_num_seqs", "token_budget")
_WHOLE = (*_ENGINE_FIGURES, "num_layers", "hidden_size", "tensor_parallel")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number and where it comes from."""

    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Profile:
    """A machine under a name, and its low, medium and high loads."""

    name: str
    description: str
    machine: Machine
    low_concurrency: int
    middle_concurrency: int
    high_concurrency: int
    figures: Mapping[str, Figure]


def profile_names() -> list[str]:
    """The profiles in the package."""
    folder = resources.files(__package__).joinpath("profiles")
    return sorted(path.name.removesuffix(".toml") for path in folder.iterdir())


def load_profile(name: str) -> Profile:
    """The profile called `name`; ValueError for an unknown name or a malformed file."""
    if name not in profile_names():
        raise ValueError(
            f"profile is {name!r}; it must be one of {', '.join(profile_names())}"
            f"{did_you_mean(name, profile_names())}"
        )
    path = resources.files(__package__).joinpath("profiles", f"{name}.toml")
    return parse_profile(name, tomllib.loads(path.read_text(encoding="utf-8")))


def parse_profile(name: str, content: Mapping[str, Any]) -> Profile:
    """A profile from a parsed file."""
    figures = {key: _figure(name, key, entry) for key, entry in content["figures"].items()}
    lengths = content.get("captured_lengths")
    captured_lengths = None if lengths is None else tuple(lengths)
    graphs = GraphSizes(_graph_sizes(content["graph_sizes"]), captured_lengths)
    left = {key: figure.value for key, figure in figures.items()}
    cost = _cost(name, content["cost"], graphs, left)
    max_draft_length, max_num_seqs, token_budget = (
        int(_take(name, left, key)) for key in _ENGINE_FIGURES
    )
    if left:
        raise ValueError(
            f"profile {name}: unknown figure {min(left)!r}; leave it out of {name}.toml"
        )
    concurrency = content["concurrency"]
    return Profile(
        name=name,
        description=content["description"],
        machine=Machine(
            cost=cost,
            max_draft_length=max_draft_length,
            max_num_seqs=max_num_seqs,
            token_budget=token_budget,
            drafter=content["drafter"],
            is_async=content["is_async"],
            captured_lengths=captured_lengths,
        ),
        low_concurrency=concurrency["low"],
        middle_concurrency=concurrency["middle"],
        high_concurrency=concurrency["high"],
        figures=figures,
    )


def _cost(name: str, kind: str, graphs: GraphSizes, left: dict[str, float]) -> CostFunction:
    """The cost function; takes its figures out of `left`."""

    def build(owner: type, prefix: str = "") -> dict[str, Any]:
        keys = [field.name for field in fields(owner) if field.type in ("float", "int")]
        values = {key: _take(name, left, prefix + key) for key in keys}
        return {key: int(value) if key in _WHOLE else value for key, value in values.items()}

    if kind == "linear":
        return LinearCost(**build(LinearCost), graphs=graphs)
    if kind == "roofline":
        return RooflineCost(
            target=ModelFigures(**build(ModelFigures, "target_")),
            draft=ModelFigures(**build(ModelFigures, "draft_")),
            hardware=HardwareFigures(**build(HardwareFigures)),
            **build(RooflineCost),
            graphs=graphs,
        )
    raise ValueError(f"profile {name}: cost is {kind!r}; it must be linear or roofline")


def _take(name: str, left: dict[str, float], key: str) -> float:
    if key not in left:
        raise ValueError(f"profile {name}: figure {key!r} is missing")
    return left.pop(key)


def _figure(name: str, key: str, entry: Any) -> Figure:
    if not isinstance(entry, dict) or set(entry) != {"value", "source"} or not entry["source"]:
        raise ValueError(
            f"profile {name}: figure {key!r} needs a value and a source, and nothing else"
        )
    return Figure(float(entry["value"]), str(entry["source"]))


def _graph_sizes(entries: list[int | str]) -> tuple[int, ...]:
    """Sizes from numbers and ranges "low..high/step", both ends included."""
    sizes: set[int] = set()
    for entry in entries:
        if isinstance(entry, int):
            sizes.add(entry)
            continue
        ends, step = entry.split("/")
        low, high = ends.split("..")
        sizes.update(range(int(low), int(high) + 1, int(step)))
    return tuple(sorted(sizes))
