"""Render a quick measurement: the answer in plain words, and the JSON document."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from paceline.workbench.bench.quick.levels import PERCENTILE, Window, tail_s
from paceline.workbench.bench.quick.measure import QuickResult

SCHEMA_VERSION = 1


def render_document(result: QuickResult) -> dict[str, Any]:
    """The document that `--json` writes. docs/bench-quick.md describes its keys."""
    held = result.held
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "paceline bench quick",
        "answer": list(render_answer(result)),
        "max_concurrency": {
            "value": held.value if held else None,
            "low": held.low if held else None,
            "high": held.high if held else None,
            "is_lower_bound": held is not None and held.high is None,
        },
        "slo": {"ttft_ms": 1e3 * result.config.ttft_limit_s, "percentile": PERCENTILE},
        "speculation_gain": result.gain.gain,
        "speculation": asdict(result.gain),
        "single_request": _single(result),
        "levels": [_window(window) for window in result.windows],
        "duration_s": result.duration_s,
        "is_interrupted": result.is_interrupted,
        "config": {**asdict(result.config), "temperature": result.config.temperature},
        "environment": asdict(result.environment),
        "notes": result.notes,
    }


def render_answer(result: QuickResult) -> Iterator[str]:
    """The answer, one sentence each."""
    limit = f"{result.config.ttft_limit_s:g} s"
    held = result.held
    if held is None:
        yield "There was no time to find out how many chats the server holds at once."
    elif held.high is None:
        yield (
            f"The server holds at least {_chats(held.value)} at once: the time to first token "
            f"stays within {limit} for nine of ten requests."
        )
    elif held.value == 0:
        yield f"Even one chat alone does not get its first token within {limit}."
    else:
        yield (
            f"The server holds {_chats(held.value)} at once ({held.low} to {held.high}) before the "
            f"time to first token passes {limit} for one request in ten."
        )
    single = result.single
    if single is not None and single.is_ok and single.ttft_s is not None:
        sentence = f"A chat alone gets its first token after {1e3 * single.ttft_s:.0f} ms"
        if single.tpot_s:
            sentence += f" and then {1 / single.tpot_s:.0f} tokens per second"
        yield sentence + "."
    gain = result.gain
    if gain.gain is not None:
        yield (
            f"Speculation makes answers {gain.gain:.2f} times as fast ({gain.low:.2f} to "
            f"{gain.high:.2f}) with {gain.concurrency} at once."
        )
    else:
        yield f"The gain of speculation is unknown: {gain.reason}."


def _chats(count: int) -> str:
    return "1 chat" if count == 1 else f"{count} chats"


def _single(result: QuickResult) -> dict[str, float | None] | None:
    single = result.single
    if single is None or not single.is_ok:
        return None
    ttft_s, tpot_s = single.ttft_s, single.tpot_s
    return {
        "ttft_ms": None if ttft_s is None else 1e3 * ttft_s,
        "tpot_ms": None if tpot_s is None else 1e3 * tpot_s,
    }


def _window(window: Window) -> dict[str, Any]:
    """One window; a tail that is not finite, because of misses, is None."""
    tail = tail_s(window.ttfts_s)
    return {
        "concurrency": window.level,
        "num_requests": len(window.ttfts_s),
        "num_missed": sum(math.isinf(ttft) for ttft in window.ttfts_s),
        "num_errors": window.num_errors,
        "ttft_p90_ms": 1e3 * tail if math.isfinite(tail) else None,
        "output_tokens_per_s": window.output_tokens_per_s,
    }
