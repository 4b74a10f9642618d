"""Figures of each variant from the raw records: speed against the baseline, and quality."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.quantization.variants import CONTROL, UNQUANTIZED, VARIANTS

Record = Mapping[str, Any]


def rate_of(turn: Record) -> float:
    """Output tokens per second of one turn, prompts included."""
    requests = turn["requests"]
    return sum(r["num_tokens"] for r in requests) / sum(r["seconds"] for r in requests)


def choose_baseline(turns: Sequence[Record]) -> str:
    """The unquantized variant with the highest median rate: the model in its best format.

    Raises ValueError if none was measured.
    """
    medians = {
        name: statistics.median(rates)
        for name in UNQUANTIZED
        if (rates := [rate_of(turn) for turn in turns if turn["variant"] == name])
    }
    if not medians:
        raise ValueError("no turn of an unquantized engine was recorded")
    return max(medians, key=lambda name: medians[name])


def summarize_speed(turns: Sequence[Record], baseline: str) -> dict[str, dict[str, Any]]:
    """Per variant: median tokens/s, tokens per step, and its ratios to `baseline`.

    A ratio is of two turns of one round and batch, which have the same prompts. Incomplete rounds
    count as far as both turns exist.
    """
    by_round: dict[tuple[int, int], dict[str, Record]] = {}
    for turn in turns:
        by_round.setdefault((turn["batch"], turn["round"]), {})[turn["variant"]] = turn
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(turn["variant"] for turn in turns):
        own = [turns_of[name] for turns_of in by_round.values() if name in turns_of]
        ratios = [
            rate_of(turns_of[name]) / rate_of(turns_of[baseline])
            for turns_of in by_round.values()
            if name in turns_of and baseline in turns_of
        ]
        requests = [request for turn in own for request in turn["requests"]]
        found[name] = {
            "tokens_per_s": statistics.median(map(rate_of, own)),
            "tokens_per_step": sum(r["num_tokens"] for r in requests)
            / sum(r["steps"] for r in requests),
            "first_token_ms": 1e3 * statistics.median(r["first_s"] for r in requests),
            **_spread(ratios),
        }
    return found


def choose_fastest(turns: Sequence[Record]) -> tuple[str, str | None] | None:
    """The baseline and the fastest quantized variant, if there is one; None without a baseline."""
    if not any(turn["variant"] in UNQUANTIZED for turn in turns):
        return None
    baseline = choose_baseline(turns)
    return baseline, choose_best(summarize_speed(turns, baseline))


def choose_best(speed: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The variant with quantized weights and the highest median ratio; None without one."""
    ratios = {
        name: figures["ratio"]
        for name, figures in speed.items()
        if VARIANTS[name].scheme is not None and figures["ratio"] is not None
    }
    return max(ratios, key=lambda name: ratios[name], default=None)


def summarize_products(
    turns: Sequence[Record], baseline: str, best: str, drafters: Iterable[str]
) -> list[dict[str, Any]]:
    """Per drafter: the format's ratio, speculation's ratio, and that of both together.

    All are against `baseline` without speculation. `kept` is the measured product over that of the
    two ratios: 1 where the gains multiply.
    """
    speed = summarize_speed(turns, baseline)
    rows = []
    for drafter in drafters:
        names = (best, f"{baseline}+{drafter}", f"{best}+{drafter}")
        if any(name not in speed or speed[name]["ratio"] is None for name in names):
            continue
        of_format, of_drafts, both = (speed[name] for name in names)
        rows.append(
            {
                "drafter": drafter,
                "format": best,
                "format_ratio": of_format["ratio"],
                "speculation_ratio": of_drafts["ratio"],
                **{f"both_{key}": both[key] for key in ("ratio", "ratio_min", "ratio_max", "n")},
                "kept": both["ratio"] / (of_format["ratio"] * of_drafts["ratio"]),
                "tokens_per_step": of_drafts["tokens_per_step"],
                "both_tokens_per_step": both["tokens_per_step"],
            }
        )
    return rows


def product_pair(batches: Sequence[Record]) -> tuple[str, str] | None:
    """The unquantized and the quantized variant whose products were measured; None before that."""
    pairs = [one["pair"] for one in batches if one["kind"] == "products"]
    return (pairs[0][0], pairs[0][1]) if pairs else None


def summarize_quality(load: Record, base: Record) -> dict[str, float]:
    """Perplexity of the reference answers, and the greedy answers in common with the baseline's.

    `greedy_same` is the mean fraction of an answer's tokens before the first that differs.
    """
    tokens = sum(row["tokens"] for row in load["likelihoods"])
    nats, base_nats = (
        sum(row["nats"] for row in record["likelihoods"]) / tokens for record in (load, base)
    )
    same = [
        _num_same(mine, theirs) / len(theirs)
        for mine, theirs in zip(load["answers"], base["answers"], strict=True)
    ]
    return {
        "perplexity": math.exp(nats),
        "perplexity_ratio": math.exp(nats - base_nats),
        "first_choice": sum(row["first"] for row in load["likelihoods"]) / tokens,
        "greedy_same": statistics.mean(same),
    }


def summarize(document: Record, model: str) -> dict[str, Any]:
    """Everything that is known of one model: rows by variant, the control, products, faults."""
    loads, turns, products = (
        [record for record in document[key] if record["model"] == model]
        for key in ("loads", "turns", "products")
    )
    speed: dict[str, dict[str, Any]] = {}
    baseline, best = choose_fastest(turns) or (None, None)
    if baseline is not None:
        speed = summarize_speed(turns, baseline)
    by_name = {load["variant"]: load for load in loads}
    reference = by_name.get(baseline or UNQUANTIZED[0], {})
    rows: dict[str, Any] = {}
    for load in loads:
        name = load["variant"]
        quality = (
            summarize_quality(load, reference)
            if "likelihoods" in load and "likelihoods" in reference
            else {}
        )
        rows[name] = {**quality, **speed.get(name, {})}
    drafters = document["settings"]["drafters"]
    pair = product_pair([one for one in document["batches"] if one["model"] == model])
    return {
        "baseline": baseline,
        "best": best,
        "rows": rows,
        "control_ratio": speed.get(CONTROL),
        "products": summarize_products(products, *pair, drafters) if products and pair else [],
        "disagreements": {
            load["variant"]: load["disagreement"] for load in loads if load["disagreement"]
        },
    }


def _spread(ratios: Sequence[float]) -> dict[str, Any]:
    if not ratios:
        return {"ratio": None, "ratio_min": None, "ratio_max": None, "n": 0}
    return {
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "n": len(ratios),
    }


def _num_same(mine: Sequence[int], theirs: Sequence[int]) -> int:
    """Tokens before the first difference."""
    for number, (a, b) in enumerate(zip(mine, theirs, strict=False)):
        if a != b:
            return number
    return min(len(mine), len(theirs))
