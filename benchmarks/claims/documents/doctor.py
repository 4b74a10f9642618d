"""The claims of docs/experiments/doctor.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/experiments/doctor.md"
LOSSES = "doctor-losses-2026-11-28-3.json"
NOT_MEASURED = {
    "setting": ("two cores", "eight draft tokens", "four requests at a time", "(95 %"),
    "target": ("the line is 80 %", "it should be 1."),
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
    silence = read("doctor-silence-2026-11-28-2.json")
    assert silence["summary"]["info"].keys() == {"draft-drift", "prefill-stalls"}
    yield claim(
        "Of {num_diagnoses} diagnoses in {observed_minutes:.0f} minutes, {num_engine} of them on "
        "the engine's own port, {num_above_info} had a warning: `prefill-stalls`",
        num_engine=sum(one["target"] == "engine" for one in silence["diagnoses"]),
        **silence["summary"],
    )
    assert silence["summary"]["above_info"].keys() == {"prefill-stalls"}
    yield claim("Remarks: {remarks} times", remarks=silence["summary"]["info"]["draft-drift"])
    yield claim(
        "and {stalls} times `prefill-stalls`", stalls=silence["summary"]["info"]["prefill-stalls"]
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
