"""The claims of docs/how-to/train-a-draft.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread
from benchmarks.draft_training import BUNDLED, CONTROL, START, TRAINED, WITHOUT

DOCUMENT = "docs/how-to/train-a-draft.md"
NOT_MEASURED = {
    "setting": ("six layers", "95 %", "temperature 1 |"),
    "target": ("stay below 0.6",),
    "counted in the prompts": ("answers to 21 of the 200 test chats",),
}


_SERVERS = {
    CONTROL: "none, again",
    START: "where the training starts",
    BUNDLED: "the bundled draft",
    TRAINED: "the trained draft",
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    json_alone = read("draft-training-json-long-2026-11-28.json")
    yield from _trained(json_alone)
    shorter = read("draft-training-json-apart-2026-11-28.json")
    provenance = shorter["training"]["provenance"]
    yield claim(
        "of {minutes:.0f} minutes on the same chats reached {rate:.2f}",
        minutes=provenance["training"]["seconds"] / 60,
        rate=shorter["summary"]["held_out"]["trained"]["value"],
    )
    yield claim(
        "{num_tests} further chats the bundled draft, which was trained much longer on this task "
        "with other functions, is accepted at {bundled[0]:.2f} greedy and {bundled[1]:.2f} "
        "sampled, this one at {trained[0]:.2f} and {trained[1]:.2f}",
        num_tests=json_alone["settings"]["num_tests"],
        **_offline(json_alone),
    )
    turns = json_alone["turns"]
    yield claim("in {n} rounds", n=_ratios(turns, TRAINED, 0.0).n)
    for server, name in _SERVERS.items():
        greedy, sampled = (_ratios(turns, server, one) for one in (0.0, 1.0))
        yield claim(
            "| {name} | {greedy.median:.2f} ({greedy.lowest:.2f} to {greedy.highest:.2f}) "
            "| {sampled.median:.2f} ({sampled.lowest:.2f} to {sampled.highest:.2f}) |",
            name=name, greedy=greedy, sampled=sampled,
        )  # fmt: skip
    four_tasks = read("draft-training-tasks-2026-11-28.json")
    yield from _trained(four_tasks)
    yield claim(
        "at {bundled[0]:.2f} greedy and {bundled[1]:.2f} sampled, this one at {trained[0]:.2f} and "
        "{trained[1]:.2f}",
        **_offline(four_tasks),
    )


def _offline(result: Mapping[str, Any]) -> dict[str, list[float]]:
    """Acceptance rates of both drafts, greedy and sampled."""
    return {
        draft: [one["acceptance_rate"]["value"] for one in result["offline"][draft]]
        for draft in ("bundled", "trained")
    }


def _trained(result: Mapping[str, Any]) -> Iterator[Claim]:
    """The training, its comparison on held-out chats, and the served acceptance."""
    provenance = result["training"]["provenance"]
    yield claim(
        "{num_trained} chats, in {minutes:.0f} minutes of training",
        num_trained=provenance["origin"]["num_trained"],
        minutes=provenance["training"]["seconds"] / 60,
    )
    yield claim("{num_held_out} chats", num_held_out=provenance["origin"]["num_held_out"])
    held_out = provenance["held_out"]
    rows = [(_label(one["sampling"]), one) for one in held_out["by_sampling"]]
    for label, one in [*rows, ("both", held_out["overall"])]:
        yield claim(
            "| {label} | {before[value]:.2f} | {after[value]:.2f} | {gain[value]:+.2f} "
            "({gain[low]:+.2f} to {gain[high]:+.2f}) |",
            label=label,
            before=one["present"]["acceptance_rate"],
            after=one["candidate"]["acceptance_rate"],
            gain=one["difference"]["acceptance_rate"],
        )
    yield claim("{num_tests} other chats at a fixed length of {draft_length}", **result["settings"])
    for one in result["served"]:
        differences = (abs(figure["difference"]) for figure in one["comparison"]["figures"])
        yield claim(
            "{largest:.3f} at {label}",
            largest=max(differences),
            label=f"temperature {one['temperature']:g}",
        )


def _label(sampling: Mapping[str, Any]) -> str:
    temperature = sampling["temperature"]
    return f"temperature {temperature:g}" if temperature else "greedy"


def _ratios(turns: list[Mapping[str, Any]], server: str, temperature: float) -> Spread:
    """Tokens/s relative to the server without drafts of the same round."""
    rates = {
        (turn["round"], turn["server"]): turn["output_tokens_per_s"]
        for turn in turns
        if turn["temperature"] == temperature
    }
    return Spread(
        rate / rates[number, WITHOUT] for (number, name), rate in rates.items() if name == server
    )
