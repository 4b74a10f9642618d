"""The claims of docs/experiments/quality.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/quality.md"
NOT_MEASURED = {
    "setting": (
        "Limits: 2 for the divergence, 0.05 for perplexity and task score",
        "bounded at 0.01",
        "above 2, with",
        "in tier 1",
        "a limit of 2",
        "1/1000 nats",
        "groups of 32, 64 and 128",
        "with 120 prompts",
        "Some 250 prompts",
        "other scales than 1",
        "Noise of 5%",
    ),
}
RESULT = "quality-study-2026-11-28.json.gz"
MORE_PROMPTS = tuple(f"quality-swapped-rows-{num}-2026-11-28.json.gz" for num in (240, 480))
TABLE = "quality-table-2026-11-23.json"
TEMPLATE = "chat template"
_BASES = {"w8a8": "INT8", "w4a16": "INT4"}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read(RESULT)
    runs, settings = result["runs"], result["settings"]
    sound = [one for one in runs if one["is_sound"]]
    stated = {one["name"]: one["sizes"][-1] for one in settings["defects"]}
    at_stated = [one for one in runs if one["size"] == stated.get(one["name"], -1)]
    yield claim(
        "**{found} of {n} faults of the stated sizes were rejected, and {rejected} of {sound} "
        "verdicts on {models} sound folders were rejections; {approved} were approvals.**",
        found=_rejected(at_stated),
        n=len(at_stated),
        rejected=_rejected(sound),
        sound=len(sound),
        models=len({one["name"] for one in sound}),
        approved=sum(one["verdict"] == "approved" for one in sound),
    )
    yield claim(
        "Each of {num_seeds} seeds has {num_conversations} prompts of its own",
        num_seeds=len({one["seed"] for one in runs}),
        num_conversations=settings["num_conversations"],
    )
    for defect in settings["defects"]:
        for size in reversed(defect["sizes"]):
            mine = [one for one in runs if (one["name"], one["size"]) == (defect["name"], size)]
            yield claim(
                "| {name} | {base} | {what} | {found} of {n} | {ratio} |",
                name=defect["name"],
                base=_BASES[defect["base"]],
                what=defect["what"].format(size=size),
                found=_rejected(mine),
                n=len(mine),
                ratio=_range([one["ratio"] for one in mine if "ratio" in one]),
            )
    swapped = [one for one in at_stated if one["name"] == "swapped rows"]
    [missed] = [one for one in swapped if one["verdict"] != "rejected"]
    yield claim("One of {n} places of {size} swapped pairs was missed", n=len(swapped), **missed)
    yield claim("the verdict was `{verdict}`", **missed)
    yield claim("with a divergence of {ratio:.2f} times that of rounding", **missed)
    for name in MORE_PROMPTS:
        again = read(name)
        one = again["runs"][-1]
        assert (one["seed"], one["size"]) == (missed["seed"], missed["size"])
        yield claim("[{num_conversations}", **again["settings"])
        yield claim("at {ratio:.2f} times", ratio=one["ratio"])
        assert one["verdict"] == "rejected"
    templates = [one for one in runs if one["name"] == TEMPLATE]
    yield claim(
        "One character lost from the chat template was rejected in {found} of {n}",
        found=_rejected(templates),
        n=len(templates),
    )
    schemes = dict.fromkeys(one["name"].partition("-")[0] for one in sound)
    for scheme in schemes:
        mine = [one for one in sound if one["name"].partition("-")[0] == scheme]
        yield claim(
            "| {scheme} | {models} | {ratio} | {kl.median:.2g} | {rejected} | {approved} of {n} |",
            scheme=scheme,
            models=len({one["name"] for one in mine}),
            ratio=_range([one["ratio"] for one in mine]),
            kl=Spread(1000 * one["mean_kl_nats"] for one in mine),
            rejected=_rejected(mine),
            approved=sum(one["verdict"] == "approved" for one in mine),
            n=len(mine),
        )
    yield from _table(read(TABLE))


def _rejected(runs: Sequence[Mapping[str, Any]]) -> int:
    return sum(one["verdict"] == "rejected" for one in runs)


def _range(values: Sequence[float]) -> str:
    """The median, and the lowest and the highest value."""
    spread = Spread(values)
    return f"{spread.median:.3g} ({spread.lowest:.3g} to {spread.highest:.3g})"


def _table(result: Mapping[str, Any]) -> Iterator[Claim]:
    """The rows of `paceline quality` on the formats of the bundled target."""
    yield claim(
        "{num_prompts} held-out JSON tasks, greedily, at a limit of the score loss of {limit:g}",
        num_prompts=result["prompts"]["num_prompts"],
        limit=result["limits"]["score_loss"],
    )
    for one in result["candidates"]:
        fidelity, outcomes, [acceptance] = one["fidelity"], one["outcomes"], one["acceptance"]
        yield claim(
            "| {name} | {mb:.1f} | {kl:.2g} | {ratio[value]:.2f} ({ratio[low]:.2f} to "
            "{ratio[high]:.2f}) | {agreement:.1f} % | {perplexity:+.2f} % | {before:.3f} to "
            "{after:.3f} | {loss:.3f} | {change:+.3f} ({low:+.3f} to {high:+.3f}) | {verdict} |",
            name=PurePosixPath(one["model"]).name,
            mb=one["num_bytes"] / 1e6,
            kl=1000 * fidelity["mean_kl_nats"],
            ratio=fidelity["ratio"],
            agreement=100 * fidelity["agreement"],
            perplexity=100 * fidelity["perplexity_increase"]["value"],
            before=outcomes["baseline_score"],
            after=outcomes["candidate_score"],
            loss=outcomes["loss"]["high"],
            change=acceptance["candidate"] - acceptance["baseline"],
            low=acceptance["low"],
            high=acceptance["high"],
            verdict=one["decision"]["verdict"],
        )
