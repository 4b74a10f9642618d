"""The claims of docs/experiments/speculation.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.readers import paired_ratios
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/speculation.md"
NOT_MEASURED = {
    "setting": (
        "vLLM 0.32.0",
        "at temperature 1,",
        "Each run has 6 to 48 requests",
        "fixed length above 0",
        "held at 0",
        "Held at 0",
        "**Length 0 is",
        "ran at length 0",
        "[decision 2]",
        "64 tokens an answer",
        "At 0 a served engine",
        "of 8 repeats",
        "16 requests, on the same machine",
    ),
    "target": ("The target was 0.98", "The target was 1.2"),
    "outside": ("23 to 47 ms where it takes 15 to 17 ms without drafts",),
}
_HELD_SERVED = "held-at-zero-served-2026-11-30.json.gz"
_FIRST_TOKEN = "first-token-2026-11-30.json.gz"
_RATIO = "{{{0}.median:.2f}} ({{{0}.lowest:.2f}}-{{{0}.highest:.2f}})"
PREDICTABLE, HARD = "predictable, greedy, concurrency 1", "hard, temperature 1, concurrency 8"
MODEL, HELD, NGRAM = "draft model, goodput", "draft model, held at 0", "n-gram, goodput"


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    twin = read("speculation-twin-2026-11-21.json.gz")
    bundled = read("speculation-bundled-2026-11-21.json.gz")
    for name, result, bold in (
        ("twin (120M, padded) | predictable", (twin, PREDICTABLE), "model"),
        ("twin (120M, padded) | hard", (twin, HARD), ""),
        ("bundled (11M) | predictable", (bundled, PREDICTABLE), "ngram"),
        ("bundled (11M) | hard", (bundled, HARD), ""),
    ):
        cells = " | ".join(
            f"{'**' * (arm == bold)}{{{arm}.median:.2f}}{'**' * (arm == bold)} "
            f"({{{arm}.lowest:.2f}}-{{{arm}.highest:.2f}})"
            for arm in ("model", "held", "ngram")
        )
        yield claim(
            f"| {name} | {cells} |",
            model=paired_ratios(*result, MODEL),
            held=paired_ratios(*result, HELD),
            ngram=paired_ratios(*result, NGRAM),
        )
    yield claim("n = {ratios.n}", ratios=paired_ratios(twin, HARD, MODEL))
    for arm, text in ((MODEL, "cost {small:.0f} to {large:.0f} % with the draft model"),
                      (NGRAM, "and {small:.0f} to {large:.0f} % with n-gram")):  # fmt: skip
        lost = [100 * (1 - paired_ratios(one, HARD, arm).median) for one in (twin, bundled)]
        yield claim(text, small=min(lost), large=max(lost))
    for arm, text in (
        (MODEL, "was {x.median:.2f} ({x.lowest:.2f}-{x.highest:.2f}) times that of no speculation"),
        (NGRAM, "and {x.median:.2f} ({x.lowest:.2f}-{x.highest:.2f}) times with n-gram"),
    ):
        yield claim(text, x=paired_ratios(twin, HARD, arm, "tpot_p50"))
    first_tokens = [paired_ratios(twin, HARD, arm, "ttft_p50").median for arm in (MODEL, NGRAM)]
    yield claim("fell to {low:.2f} and {high:.2f} times", low=first_tokens[0], high=first_tokens[1])
    held = Spread(
        paired_ratios(twin, load, HELD, "tpot_p50").median for load in (PREDICTABLE, HARD)
    )
    yield claim(
        "is {held.lowest:.2f} and {held.highest:.2f} times that of an engine without speculation "
        "on the twin's two loads",
        held=held,
    )
    yield claim(
        "and {x.median:.2f} ({x.lowest:.2f}-{x.highest:.2f}) times on the bundled target's "
        "predictable load",
        x=paired_ratios(bundled, PREDICTABLE, HELD, "tpot_p50"),
    )
    first = read("speculation-bundled-2026-11-21-first-training.json.gz")
    yield claim(
        "reached {x.median:.2f} ({x.lowest:.2f}-{x.highest:.2f}) of the rate",
        x=paired_ratios(first, HARD, HELD),
    )
    yield from _served(read(_HELD_SERVED))
    yield from _first_token(read(_FIRST_TOKEN))


def _served(result: Mapping[str, Any]) -> Iterator[Claim]:
    number = paired_ratios(result, "hard, temperature 1, concurrency 1", "held").n
    yield claim("n = {n} interleaved repeats; the twin, two Intel cores", n=number)
    yield claim("ended after {n} of", n=number)
    for arm, name in (
        ("none again", "a second engine without speculation"),
        ("held", "held at 0"),
        ("held, unpolled", "held at 0, not polled"),
        ("held, blind", "held at 0, nothing observed"),
    ):
        rates = {
            f"at_{number}": paired_ratios(result, f"hard, temperature 1, concurrency {number}", arm)
            for number in (1, 8)
        }
        yield claim(f"| {name} | {_RATIO.format('at_1')} | {_RATIO.format('at_8')} |", **rates)


def _first_token(result: Mapping[str, Any]) -> Iterator[Claim]:
    number = paired_ratios(result, "hard, concurrency 1", "draft", "ttft_p50").n
    yield claim("n = {n} interleaved repeats of 16", n=number)
    yield claim("ended after {n} of", n=number)
    for arm, name in (
        ("none again", "a second engine without speculation"),
        ("draft", "draft model, goodput"),
    ):
        times = {
            text: paired_ratios(result, f"{text}, concurrency 1", arm, "ttft_p50")
            for text in ("predictable", "hard")
        }
        cells = f"{_RATIO.format('predictable')} | {_RATIO.format('hard')}"
        yield claim(f"| {name} | {cells} |", **times)
