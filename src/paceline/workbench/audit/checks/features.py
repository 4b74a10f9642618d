"""Check what a request may ask beside sampling parameters: seeds, `n`, `stop`, structured output.

Each check is deterministic or has a false-alarm probability that is stated and tiny.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.transport import ServerError
from paceline.workbench.audit.together import together
from paceline.workbench.audit.values import GREEDY, Answer, Request, SamplingCase

_PLAIN = SamplingCase("temperature 1")
_TOKENS = 24
_NUM_SEEDS = 6
_MAX_LOG_PROB = math.log(1e-9)
"""Texts at most this likely are not drawn twice by chance."""
_STOP_TOKENS = 32
_SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "level": {"enum": ["low", "high"]}},
    "required": ["ok", "level"],
    "additionalProperties": False,
}
_NUM_DOCUMENTS = 4


@dataclass(frozen=True, slots=True)
class FeatureResult:
    """One feature: `right`, `wrong`, `unknown` where the server gives no answer to judge, or
    `failed` where it fails instead of answering."""

    name: str
    status: str
    detail: str
    request: Request | None = None
    """Of a wrong one: a request that shows it."""


@dataclass(slots=True)
class FeatureResults:
    """The features checked so far."""

    found: list[FeatureResult] = field(default_factory=list)

    @property
    def wrong(self) -> list[FeatureResult]:
        return [one for one in self.found if one.status == "wrong"]

    @property
    def failed(self) -> list[FeatureResult]:
        return [one for one in self.found if one.status == "failed"]


async def check_feature(server: Server, name: str, prompt: str, results: FeatureResults) -> None:
    """Add the result of one of `FEATURES`. Raises `ServerError` if the server died."""
    try:
        results.found.append(await FEATURES[name](server, prompt))
    except ServerError as error:
        if not error.is_refusal and not await server.is_alive():
            raise
        status, text = ("unknown", "refuses") if error.is_refusal else ("failed", "fails")
        results.found.append(FeatureResult(name, status, f"the server {text}: {error}"))


async def _seeds(server: Server, prompt: str) -> FeatureResult:
    """Different seeds give different texts. Whether one seed repeats its text is reported only."""
    if not server.support.seed:
        return FeatureResult(
            "seeds", "unknown", "no seed was sent: the server refuses seeds, fails on them or ends"
        )
    num = server.support.num_logprobs
    request = Request(prompt, _PLAIN, _TOKENS, num_logprobs=num or None)
    seeded = [replace(request, seed=seed) for seed in (*range(1, _NUM_SEEDS + 1), 1)]
    answers = [found[0] for found in await together(map(server.complete, seeded))]
    *different, again = answers
    repeats = again.tokens == different[0].tokens and again.text == different[0].text
    detail = f"one seed sent twice gives {'the same text' if repeats else 'two texts'}"
    twin = twins(different)
    if twin is not None:
        first, second = twin
        detail = f"seeds {first + 1} and {second + 1} give the same text, which is not likely"
        return FeatureResult("seeds", "wrong", detail, seeded[first])
    return FeatureResult("seeds", "right", f"different seeds give different texts; {detail}")


def twins(answers: Sequence[Answer]) -> tuple[int, int] | None:
    """Two equal answers whose text has a probability below 1e-9; None without such a pair."""
    for second, answer in enumerate(answers):
        log_prob = sum(
            known.get(token, min(known.values()))
            for token, known in zip(answer.tokens, answer.logprobs, strict=False)
        )
        for first in range(second if log_prob < _MAX_LOG_PROB else 0):
            if answers[first].tokens == answer.tokens:
                return first, second
    return None


async def _choices(server: Server, prompt: str) -> FeatureResult:
    """`n` gives that many answers."""
    if not server.support.n:
        return FeatureResult(
            "n", "unknown", "n was not sent: the server refuses it, fails on it or ends"
        )
    request = Request(prompt, _PLAIN, _TOKENS, n=4)
    answers = await server.complete(request)
    if len(answers) != request.n or any(len(one.tokens) > _TOKENS for one in answers):
        lengths = [len(one.tokens) for one in answers]
        detail = f"n=4 with max_tokens={_TOKENS} gives answers of {lengths} tokens"
        return FeatureResult("n", "wrong", detail, request)
    return FeatureResult("n", "right", "n=4 gives 4 answers within max_tokens")


async def _stop(server: Server, prompt: str) -> FeatureResult:
    """A stop string in the middle of a greedy answer cuts it there."""
    request = Request(prompt, GREEDY, _STOP_TOKENS)
    whole, again = [
        found[0].text for found in await together(map(server.complete, (request, request)))
    ]
    stop = stop_string(whole)
    if whole != again or stop is None:
        return FeatureResult("stop", "unknown", "the greedy answer has no text to stop at")
    stopped = replace(request, stop=stop)
    answer = (await server.complete(stopped))[0]
    expected = whole[: whole.index(stop)]
    if answer.text != expected or answer.finish_reason != "stop":
        detail = (
            f"stop={stop!r} gives {answer.text[-40:]!r} ({answer.finish_reason}) where the whole "
            f"answer has {expected[-40:]!r} before it"
        )
        # Near-ties may give another text; one that agrees as far as it goes is too short or long.
        agrees = answer.text.startswith(expected) or expected.startswith(answer.text)
        return FeatureResult("stop", "wrong" if agrees else "unknown", detail, stopped)
    return FeatureResult("stop", "right", f"stop={stop!r} cuts the answer in front of it")


def stop_string(text: str) -> str | None:
    """Two characters from the middle of a text; None if the text is short."""
    if len(text) < 8:
        return None
    middle = len(text) // 2
    stop = text[middle : middle + 2]
    return stop if "\ufffd" not in text else None


async def _structured(server: Server, prompt: str) -> FeatureResult:
    """A JSON schema gives documents of that schema."""
    extra = {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "audit", "schema": _SCHEMA, "strict": True},
        }
    }
    request = Request(prompt, _PLAIN, 64, extra=extra)
    seeds = [seed if server.support.seed else None for seed in range(_NUM_DOCUMENTS)]
    requests = [replace(request, case=GREEDY), *(replace(request, seed=seed) for seed in seeds)]
    # The first two are sent alone: a grammar may end the server, and drafts under it.
    answers = [(await server.complete(one))[0] for one in requests[:2]]
    answers += [found[0] for found in await together(map(server.complete, requests[2:]))]
    ended = [
        (one, fits_schema(answer.text))
        for one, answer in zip(requests, answers, strict=True)
        if answer.finish_reason == "stop"
    ]
    num_right = sum(is_right for _, is_right in ended)
    if not num_right:
        detail = "no answer has the schema: the server seems to ignore response_format"
        return FeatureResult("structured output", "unknown", detail)
    detail = f"{num_right} of {len(ended)} complete answers have the schema"
    if num_right < len(ended):
        failing = next(one for one, is_right in ended if not is_right)
        return FeatureResult("structured output", "wrong", detail, failing)
    return FeatureResult("structured output", "right", detail)


FEATURES: Mapping[str, Callable[[Server, str], Coroutine[Any, Any, FeatureResult]]] = {
    "stop": _stop,
    "n": _choices,
    "seeds": _seeds,
    "structured output": _structured,
}
"""In the order in which they are checked: the first is greedy, and a server is most likely to end
at the last."""


def fits_schema(text: str) -> bool:
    """Whether a text is a document of the audit's schema."""
    try:
        document = json.loads(text)
    except ValueError:
        return False
    return (
        isinstance(document, dict)
        and set(document) == {"ok", "level"}
        and isinstance(document["ok"], bool)
        and document["level"] in ("low", "high")
    )
