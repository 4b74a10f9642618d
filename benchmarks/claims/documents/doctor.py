"""The claims of docs/experiments/doctor.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/experiments/doctor.md"
LOSSES = "doctor-losses-2026-11-28-3.json"
NOT_MEASURED = {
    "setting": ("two cores", "eight draft tokens", "four requests at a time", "(95 %"),
    "target": ("the line is 80 %", "it should be 1."),
    "setting of the doctor or of vLLM": (
        "the 200 ms of `--max-pause-ms`",
        "With 512",
        "with 256 there was",
    ),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read(LOSSES)
    summary = result["summary"]
    truth, probe = summary["drafts_over_none"], summary["doctor"][1]
    fix = result["fix"]["diagnosis"]
    yield claim(
        "Drafts give {mean:.2f} times the tokens/s (95 %: {low:.2f} to {high:.2f}, {num_turns} "
        "turns)",
        **truth,
    )
    yield claim("a second time gives {mean:.2f} ({low:.2f} to {high:.2f})", **summary["control"])
    yield claim("drafts may gain or lose | {mean:.2f} |", **truth)
    yield claim(
        "after {seconds:.0f} s: a factor of {gain[value]:.2f} ({gain[low]:.2f} to "
        "{gain[high]:.2f}), so a loss of {stated:.0f} % of the tokens/s | a loss of {true:.0f} %",
        seconds=probe["seconds"],
        gain=result["doctor"][1]["diagnosis"]["probe"]["gain"],
        stated=100 * probe["stated_share"],
        true=100 * probe["true_share"],
    )
    yield claim(
        "change the throughput by {off[value]:.2f} ({off[low]:.2f} to {off[high]:.2f}); `goodput` "
        "by {kept[value]:.2f} ({kept[low]:.2f} to {kept[high]:.2f}), kept | {factor:.2f} |",
        off=fix["probe"]["gain"],
        kept=fix["fix"]["gain"],
        factor=summary["fix_factor"],
    )
    yield claim("on vLLM is stated at {stated:.2f} of the truth", stated=probe["stated_over_true"])
    earlier = read("doctor-losses-2026-11-28.json")["summary"]
    second = read("doctor-losses-2026-11-28-2.json")["summary"]
    yield claim(
        "Earlier estimates stated {first:.2f}", first=earlier["doctor"][1]["stated_over_true"]
    )
    yield claim("`70f2fcb`) and {second:.2f}", second=second["doctor"][1]["stated_over_true"])
    yield claim(
        "never drafts has {mean:.2f} ({low:.2f} to {high:.2f}) times", **summary["off_over_held"]
    )
    yield claim(
        "wins back {share:.0f} %, and {earlier:.0f} % in the run of `b8247bd`",
        share=100 * summary["won_back_of_possible"],
        earlier=100 * second["won_back_of_possible"],
    )
    yield claim(
        "have a ratio of {mean:.2f} ({low:.2f} to {high:.2f})", **summary["fixed_over_held_before"]
    )
    yield claim(
        "server has {mean:.2f} ({low:.2f} to {high:.2f}) times", **summary["fixed_over_off_after"]
    )
    yield claim(
        "drafts {drafted:.3f} tokens per output token", drafted=summary["drafted_per_token_after"]
    )
    yield claim(
        "without drafts {share:.0f} % is won back", share=100 * summary["won_back_of_vllms_loss"]
    )
    yield from _silence(read)


def _silence(read: ReadResult) -> Iterator[Claim]:
    hour, slow, smaller, smallest, disturbed, narrow, crowded, today = runs = [
        *(read(f"doctor-silence-2026-11-28-{number}.json") for number in range(2, 9)),
        read("doctor-silence-2026-11-29.json"),
    ]
    assert all(run["summary"]["is_load_healthy"] for run in runs)
    assert {name for run in runs for name in run["summary"]["above_info"]} == {"prefill-stalls"}
    assert today["is_complete"]
    for run in runs:
        yield claim(
            "| {observed_minutes:.0f} | {num_diagnoses} | {num_above_info} |", **run["summary"]
        )
    yield claim(
        "completed {slow} requests of the first phase where that of the first run completed "
        "{hour}.",
        slow=slow["load"][0]["outcomes"]["ok"],
        hour=hour["load"][0]["outcomes"]["ok"],
    )
    (slow_pause,), (small_pause,) = ({*_pauses(run)} for run in (slow, smaller))
    yield claim("took {least} ms or more", least=slow_pause.partition(" to ")[0])
    yield claim("With 512 the pauses were {pause} ms", pause=small_pause)
    yield claim(
        "alone {small[0]} and {small[1]} requests were completed, with vLLM's default {large[0]} "
        "and {large[1]}",
        small=_completed(smallest, "long prompts"),
        large=_completed(slow, "long prompts"),
    )
    assert smallest["summary"]["info"].keys() == {"prefill-stalls"}
    yield claim(
        "Remarks were {drift} times `draft-drift` and {stalls} times `prefill-stalls` in the hour, "
        "and {last} times",
        drift=hour["summary"]["info"]["draft-drift"],
        stalls=hour["summary"]["info"]["prefill-stalls"],
        last=smallest["summary"]["info"]["prefill-stalls"],
    )
    yield claim("no warning in {num_diagnoses} diagnoses", **disturbed["summary"])
    assert disturbed["summary"]["num_above_info"] == 0
    assert [one["above_info"] for one in narrow["diagnoses"]][:3] == [["prefill-stalls"]] * 2 + [[]]
    yield claim("and {num_above_info} in the run after it", **narrow["summary"])
    (start_pause,) = {*_pauses(narrow)}
    yield claim("pauses of {pause} ms, before the margin", pause=start_pause)
    yield claim(
        "completed {crowded} requests instead of {before}",
        crowded=crowded["load"][0]["outcomes"]["ok"],
        before=narrow["load"][0]["outcomes"]["ok"],
    )
    first_warned, second_warned = _warned(crowded)
    yield claim("Of its {num_diagnoses}", **crowded["summary"])
    first_late, second_late = _warned(today)
    low_pause, high_pause = _pauses(today)
    yield claim(
        "{num_above_info} of {num_diagnoses} diagnoses warned, the {first}th and the {second}rd:",
        **today["summary"],
        first=first_late,
        second=second_late,
    )
    yield claim(
        "pauses of {low} and of {high} ms in phases with long prompts",
        low=low_pause,
        high=high_pause,
    )
    yield claim(
        "diagnoses {num_above_info} warned, the {first}rd and the {second}th",
        **crowded["summary"],
        first=first_warned,
        second=second_warned,
    )
    earlier = read("doctor-silence-2026-11-28.json")
    assert earlier["summary"]["above_info"].keys() == {"draft-drift"}
    yield claim(
        "[{observed_minutes:.0f} minutes](../../benchmarks/results/doctor-silence-2026-11-28.json) "
        "with {num_diagnoses} diagnoses had {num_above_info} warnings",
        **earlier["summary"],
    )
    first = read("doctor-silence-first-2026-11-28.json")
    (warned,) = [one for one in first["diagnoses"] if one["above_info"]]
    assert (warned["target"], warned["above_info"]) == ("engine", ["prefill-stalls"])
    yield claim(
        "[{num_diagnoses} diagnoses]"
        "(../../benchmarks/results/doctor-silence-first-2026-11-28.json) "
        "had {num_above_info}, `prefill-stalls`",
        **first["summary"],
    )
    (stalls,) = warned["document"]["findings"]
    tail = stalls["evidence"][0]["value"]
    yield claim("with pauses of {least} ms or more", least=tail.partition(" to ")[0])


def _pauses(run: Mapping[str, Any]) -> Iterator[str]:
    """P99 between tokens in the warnings."""
    for one in run["diagnoses"]:
        for finding in one.get("document", {}).get("findings", ()):
            if finding["severity"] != "info":
                yield finding["evidence"][0]["value"]


def _warned(run: Mapping[str, Any]) -> list[int]:
    """Positions of the diagnoses with a warning, from 1."""
    return [1 + one["number"] for one in run["diagnoses"] if one["above_info"]]


def _completed(run: Mapping[str, Any], kind: str) -> list[int]:
    """Requests in each phase of the kind."""
    return [phase["outcomes"]["ok"] for phase in run["load"] if phase["kind"] == kind]
