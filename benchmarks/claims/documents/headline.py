"""The claims of docs/experiments/headline.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread
from benchmarks.headline.measured import TOKENS_PER_S, TTFT_P50, Measured, read_measured

DOCUMENT = "docs/experiments/headline.md"
RESULT = "headline-servers-2026-12-01.json.gz"
CELLS = (
    "chat-1", "chat-4", "chat-16", "chat-64", "edit-1", "code-sampled-1", "json-1",
    "json-sampled-16",
)  # fmt: skip
ROWS = (
    ("vllm+layout", "vllm"),
    ("paceline", "vllm"),
    ("paceline", "vllm+layout"),
    ("paceline+ngram", "vllm+layout"),
    ("paceline+smoothquant", "vllm+layout"),
    ("paceline", "llama.cpp"),
    ("paceline+smoothquant", "llama.cpp"),
)
NOT_MEASURED = {
    "setting": (
        "the model wrote 200 prompts itself",
        "at most 64 tokens",
        "48 tokens per answer",
        "| | chat, 1 user | 4 users | 16 users | 64 users | edit, 1 user | code, 1 user "
        "| JSON, 1 user | JSON, 16 users |",
        "With 4, 16 and 64 users",
        "W8A8 reads 164 and bfloat16 269",
        "It reads 98 MB",
        "lasts 2 to 8 s",
        "with greedy answers",
        "128 tokens",
    ),
    "observed": (
        "outgrew 24 GB",
        "a pause of 0.1 s, five steps long",
        "Of the 11 ms of one of our tokens, the passes of the model take 7",
        "takes 3 % longer",
        "a tenth fewer tokens",
    ),
    "name": ("| GPTQ, 4 bits |",),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read(RESULT)
    measured = read_measured(result)
    for arm, base in ROWS:
        yield row(measured, f"`{arm}` / `{base}`", arm, base)
    yield row(measured, "`vllm` a second time / `vllm`", "vllm#again", "vllm")
    yield from _of_the_text(measured)
    yield from _of_quality(read)


def row(measured: Measured, head: str, arm: str, base: str) -> Claim:
    """One row of the table of ratios."""
    names = [f"cell{number}" for number in range(len(CELLS))]
    fields = " | ".join(
        f"{{{name}.mean:.2f}} ({{{name}.lowest:.2f}} to {{{name}.highest:.2f}})" for name in names
    )
    spreads = [Spread(measured.gain(TOKENS_PER_S, arm, base, cell)) for cell in CELLS]
    return claim(f"| {head} | {fields} |", **dict(zip(names, spreads, strict=True)))


def _of_the_text(measured: Measured) -> Iterator[Claim]:
    def gain(arm: str, base: str, cell: str) -> float:
        return Spread(measured.gain(TOKENS_PER_S, arm, base, cell)).mean

    def share(arm: str) -> float:
        limit = measured.limit_tokens_per_s(arm)
        assert limit is not None
        return 100 * Spread(measured.of(TOKENS_PER_S, arm, "chat-1") / limit).mean

    yield claim(
        "from four users on, Paceline gives {least:.1f} to {most:.1f} times its tokens",
        least=gain("paceline", "llama.cpp", "chat-4"),
        most=gain("paceline", "llama.cpp", "chat-64"),
    )
    yield claim(
        "reaches {theirs:.0f} % of what the memory allows; W8A8 reaches {small:.0f} %, and "
        "{ours:.0f} % in bfloat16",
        theirs=share("llama.cpp"),
        small=share("paceline+smoothquant"),
        ours=share("paceline"),
    )
    layout = [gain("vllm+layout", "vllm", cell) for cell in CELLS]
    yield claim(
        "{least:.2f} to {most:.2f} times vLLM with its defaults",
        least=min(layout),
        most=max(layout),
    )
    yield claim(
        "Paceline gives {four:.2f}, {sixteen:.2f} and {all:.2f} of vLLM without drafts",
        four=gain("paceline", "vllm+layout", "chat-4"),
        sixteen=gain("paceline", "vllm+layout", "chat-16"),
        all=gain("paceline", "vllm+layout", "chat-64"),
    )
    first = {
        arm: Spread(measured.gain(TTFT_P50, arm, "vllm", "system-cached")).mean
        for arm in ("paceline", "paceline+ngram")
    }
    yield claim(
        "{head:.2f} times as fast as vLLM with the draft head, {ngram:.2f} times with n-grams",
        head=first["paceline"],
        ngram=first["paceline+ngram"],
    )


def _of_quality(read: ReadResult) -> Iterator[Claim]:
    result = read("quality-smollm2-2026-12-01.json")
    smoothed = read("quality-smollm2-smoothquant-2026-12-01.json")
    yield claim("Over {num_conversations} conversations", **result["prompts"])
    limit = 100 * result["limits"]["perplexity_increase"]
    names = ("W8A8, round to nearest", "GPTQ, 4 bits", "W8A8 by SmoothQuant")
    candidates = [*result["candidates"], *smoothed["candidates"]]
    for name, candidate in zip(names, candidates, strict=True):
        fidelity = candidate["fidelity"]
        increase = fidelity["perplexity_increase"]
        yield claim(
            "| {name} | {value:+.1f} % ({low:+.1f} to {high:+.1f}) | +{limit:.0f} % "
            "| {same:.1f} % | {verdict} |",
            name=name,
            **{key: 100 * increase[key] for key in ("value", "low", "high")},
            limit=limit,
            same=100 * fidelity["agreement"],
            verdict=candidate["decision"]["verdict"],
        )
