"""Measure the step time of a running server by one short probe: some 10 s of streamed answers.

The server must serve the planned model on the planned hardware, idle. The probe asks for answers
without speculation; a server that ignores the field `speculation` must run without it. It is asked
directly, whatever proxy the environment names: a proxy delays tokens, and holds them together.
"""

from __future__ import annotations

import json
import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from paceline.foundation.capacity.calibration import MeasuredSteps, fit_hardware
from paceline.foundation.capacity.step_time import StepTime
from paceline.foundation.planning.values import HardwareEntry, PlanError

NUM_REQUESTS = 8
"""Of the larger batch."""
_OUTPUT_TOKENS = 96
_PROMPT = "Continue this list of numbers: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,"
_PROMPT_TOKENS = 40
"""About; the context of so short a prompt costs next to nothing."""
_REPEATS = 3
_TIMEOUT_S = 60.0

_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Predict = Callable[[HardwareEntry], StepTime]


def calibrate(entry: HardwareEntry, url: str, predict: Predict) -> HardwareEntry:
    """Return the entry at the pace of the server at `url`.

    `predict` gives the step times of the planned model on an entry, without a drafter. Raises
    `PlanError` if the server does not answer as an OpenAI-compatible server does.
    """
    base = url.rstrip("/").removesuffix("/v1")
    try:
        model = _served_model(base)
        _token_s(base, model)  # The first request of any server is slow.
        one_s = statistics.median(_token_s(base, model) for _ in range(_REPEATS))
        many_s = statistics.median(_batch_s(base, model) for _ in range(_REPEATS))
    except (OSError, ValueError, KeyError, LookupError) as error:
        raise PlanError(
            f"the server at {url}, given with --calibrate, gave no step time: {error!r}; it must "
            "be an OpenAI-compatible server that streams completions, such as http://127.0.0.1:8000"
        ) from None
    times = predict(entry)
    context = _PROMPT_TOKENS + _OUTPUT_TOKENS / 2
    measured = MeasuredSteps(
        NUM_REQUESTS,
        one_s,
        many_s,
        times.decode_s(1, context),
        times.decode_s(NUM_REQUESTS, context),
    )
    return replace(entry, hardware=fit_hardware(entry.hardware, measured), calibration=measured)


def _served_model(base: str) -> str:
    with _DIRECTLY.open(f"{base}/v1/models", timeout=_TIMEOUT_S) as answer:
        return str(json.load(answer)["data"][0]["id"])


def _batch_s(base: str, model: str) -> float:
    """Time per token with `NUM_REQUESTS` streams at once."""
    with ThreadPoolExecutor(NUM_REQUESTS) as pool:
        streams = [pool.submit(_token_s, base, model) for _ in range(NUM_REQUESTS)]
        return statistics.median(stream.result() for stream in streams)


def _token_s(base: str, model: str) -> float:
    """Time per token of one stream, after its first chunk."""
    body = {
        "model": model,
        "prompt": _PROMPT,
        "max_tokens": _OUTPUT_TOKENS,
        "min_tokens": _OUTPUT_TOKENS,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "speculation": {"max_draft_length": 0},
    }
    request = urllib.request.Request(
        f"{base}/v1/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    first_s = last_s = 0.0
    tokens = 0
    with _DIRECTLY.open(request, timeout=_TIMEOUT_S) as answer:
        for line in answer:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[6:])
            if event.get("choices") and event["choices"][0].get("text"):
                last_s = time.perf_counter()
                first_s = first_s or last_s
            if event.get("usage"):
                tokens = event["usage"]["completion_tokens"]
    if tokens < 2 or last_s <= first_s:
        raise LookupError(f"an answer of {tokens} tokens has no time per token")
    return (last_s - first_s) / (tokens - 1)
