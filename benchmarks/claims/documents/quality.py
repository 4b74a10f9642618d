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
        "at temperature 1",
        "INT4 in groups of 32",
        "limit of 2",
        "at most 0.01",
        "1/1000 nats",
        "with 95 % confidence",
        "own seeds, from 100",
        "computes with the scale 1",
        "at least 95 % of the places",
    ),
}
RESULT = "quality-gate-2026-11-23.json.gz"
TABLE = "quality-table-2026-11-23.json"
SIZES = "quality-gate-sizes-2026-11-23.json.gz"
NOT_IN_FOLDERS = "KV cache scale"
"""A fault of the raw result that no folder can have; the document leaves it out."""
_BASES = {"w8a8": "INT8", "w4a16": "INT4"}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read(RESULT)
    runs = result["runs"]
    stated = [
        one
        for one in runs
        if not one["is_sound"] and one["is_stated"] and one["name"] != NOT_IN_FOLDERS
    ]
    sound = [one for one in runs if one["is_sound"]]
    models = len({one["name"] for one in sound})
    yield claim(
        "**{found} of {faulty} faults of the stated sizes were rejected, and {rejected} of {sound} "
        "verdicts on {models} sound models were rejections.**",
        found=sum(one["rejected"] for one in stated),
        faulty=len(stated),
        rejected=sum(one["rejected"] for one in sound),
        sound=len(sound),
        models=models,
    )
    yield claim(
        "The {sound} verdicts are on {models} fixed models", sound=len(sound), models=models
    )
    yield from _fresh(stated, read(SIZES))
    yield claim(
        "Each of {num_seeds} seeds draws {num_conversations} of {pool} prompts, answered at "
        "temperature 1 with up to {max_tokens} tokens",
        **result["settings"],
    )
    for defect in _defects(result):
        yield _defect(defect, [one for one in runs if one["name"] == defect["name"]])
    templates = [one for one in runs if one["tier"] == 1]
    yield claim(
        "One character lost from the chat template was found in tier 1 in {found} of {n}",
        found=sum(one["rejected"] for one in templates),
        n=len(templates),
    )
    for name in dict.fromkeys(one["name"] for one in sound):
        mine = [one for one in sound if one["name"] == name]
        yield claim(
            "| {name} | {kl.median:.2g} | {agreement.median:.1f} % | {perplexity.median:+.2f} % | "
            "{ratio.median:.2f} ({ratio.lowest:.2f} to {ratio.highest:.2f}) | {rejected} of {n} | "
            "{proven} of {n} |",
            name=name,
            kl=Spread(1000 * one["mean_kl_nats"] for one in mine),
            agreement=Spread(100 * one["agreement"] for one in mine),
            perplexity=Spread(100 * one["perplexity_increase"] for one in mine),
            ratio=Spread(one["ratio"] for one in mine),
            rejected=sum(one["rejected"] for one in mine),
            n=len(mine),
            proven=sum(one["proven"] for one in mine),
        )
    yield from _table(read(TABLE))
    yield from _sizes(read(SIZES))


def _fresh(stated: Sequence[Mapping[str, Any]], sizes: Mapping[str, Any]) -> Iterator[Claim]:
    """The seeds on which the sizes were not chosen; each fault was found at every place there."""
    chosen = {one["seed"] for one in sizes["runs"]}
    fresh = [one for one in stated if one["seed"] not in chosen]
    seeds = {one["seed"] for one in fresh}
    assert all(one["rejected"] for one in fresh), "the bound below is that of no miss"
    yield claim(
        "chosen on the first {chosen} of the same {all} seeds",
        chosen=len(chosen),
        all=len(chosen | seeds),
    )
    yield claim(
        "On the {seeds} other seeds {found} of {n} faults were rejected. {seeds} draws of a fault "
        "prove that {detection:.0f} % of all draws are rejected",
        seeds=len(seeds),
        found=sum(one["rejected"] for one in fresh),
        n=len(fresh),
        detection=100 * 0.05 ** (1 / len(seeds)),
    )


def _defects(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in result["defects"] if one["name"] != NOT_IN_FOLDERS]


def _defect(defect: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> Claim:
    """The row of a fault at its stated size."""
    return claim(
        "| {name} | {base} | {what} | {found} of {n} | {ratio.median:.3g} ({ratio.lowest:.3g} to "
        "{ratio.highest:.3g}) |",
        name=defect["name"],
        base=_BASES[defect["base"]],
        what=defect["what"].format(size=defect["size"]),
        found=sum(one["rejected"] for one in runs),
        n=len(runs),
        ratio=Spread(one["ratio"] for one in runs),
    )


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


def _sizes(result: Mapping[str, Any]) -> Iterator[Claim]:
    """The faults at other sizes."""
    yield claim(
        "ended after {num_seeds} seeds", num_seeds=len({one["seed"] for one in result["runs"]})
    )
    for defect in _defects(result):
        for size in (defect["smaller"], defect["size"]):
            runs = [
                one
                for one in result["runs"]
                if one["name"] == defect["name"] and one["size"] == size
            ]
            if runs:
                yield claim(
                    "| {name} | {what} | {found} of {n} | {ratio.median:.3g} |",
                    name=defect["name"],
                    what=defect["what"].format(size=size),
                    found=sum(one["rejected"] for one in runs),
                    n=len(runs),
                    ratio=Spread(one["ratio"] for one in runs),
                )
