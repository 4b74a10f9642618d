"""Streams: their protocol, their finish reasons, and their text against the whole answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import PROMPTS, Deployment, together
from paceline.operations.validate.target.answers import Answer, read_answer, read_stream
from paceline.operations.validate.target.exchange import DONE, Reply, Stream
from paceline.operations.validate.target.target import CHAT, COMPLETIONS
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Group, Judgement, Missing, Violation, passed

_TOKENS = 24
_NUM_TRIES = 3
"""Of a greedy answer: two computations of one prompt may differ at a near-tie."""
_REASONS = ("stop", "length")


async def _observe_streams(deployment: Deployment) -> list[Stream]:
    """Streams of both routes; those that the server does not serve are left out."""
    target = deployment.target
    messages = [{"role": "user", "content": PROMPTS[3]}]
    streams = [
        await target.stream(COMPLETIONS, prompt=PROMPTS[0], max_tokens=_TOKENS, temperature=0),
        await target.stream(CHAT, messages=messages, max_tokens=_TOKENS, temperature=0),
    ]
    served = [one for one in streams if one.status not in (400, 404, 405, 501)]
    if not served:
        raise Missing(f"the server serves no streams: {streams[0].events[:1]}")
    return served


def judge_protocol(streams: list[Stream], tier: Tier) -> Judgement:
    """The content type, one [DONE] at the end, and one id in all chunks."""
    for stream in streams:
        stream.expect_ok()
        if stream.content_type != "text/event-stream":
            raise Violation(f"{stream.asked}: content type {stream.content_type!r}")
        if stream.events.count(DONE) != 1 or stream.events[-1] != DONE:
            raise Violation(
                f"{stream.asked}: {stream.events.count(DONE)} events [DONE], expected one at the "
                "end"
            )
        ids = {str(chunk.get("id")) for chunk in stream.chunks()}
        if len(ids) != 1:
            raise Violation(f"{stream.asked}: the chunks have {len(ids)} ids, expected one")
    num_events = sum(len(stream.events) for stream in streams)
    return passed(f"{len(streams)} streams of {num_events} events", num_events=num_events)


def judge_finish(streams: list[Stream], tier: Tier) -> Judgement:
    """Every choice ends with one finish reason, and nothing follows it."""
    for stream in streams:
        answer = read_stream(stream)
        if not answer.choices:
            raise Violation(f"{stream.asked}: no choices")
        for index, choice in answer.choices.items():
            if len(choice.finish_reasons) != 1 or choice.finish_reasons[0] not in _REASONS:
                raise Violation(
                    f"{stream.asked}: choice {index} has the finish reasons "
                    f"{choice.finish_reasons}, expected one of {', '.join(_REASONS)}"
                )
            if choice.num_after_end:
                raise Violation(f"{stream.asked}: choice {index} has text after its finish reason")
    return passed(f"{len(streams)} streams with one finish reason each")


@dataclass(frozen=True, slots=True)
class Pair:
    """The greedy answers to one prompt."""

    prompt: str
    whole: tuple[Reply, ...]
    streamed: tuple[Stream, ...]

    def matches(self) -> bool:
        """Whether one of the streams has the text of one of the whole answers."""
        texts = {read_answer(reply).only().text for reply in self.whole}
        return any(_stream_text(stream) in texts for stream in self.streamed)


async def _observe_pairs(deployment: Deployment) -> list[Pair]:
    """Up to the first pair that does not match."""
    pairs: list[Pair] = []
    for prompt in PROMPTS:
        pairs.append(await _observe_pair(deployment, prompt))
        if not pairs[-1].matches():
            break
    return pairs


async def _observe_pair(deployment: Deployment, prompt: str) -> Pair:
    """Asked again while nothing matches: a near-tie is rare, a fault stays."""
    target = deployment.target
    body: dict[str, Any] = {"prompt": prompt, "max_tokens": _TOKENS, "temperature": 0}
    pair = Pair(prompt, (), ())
    for _ in range(_NUM_TRIES):
        whole = await target.complete(**body)
        stream = await target.stream(COMPLETIONS, **body)
        pair = Pair(prompt, (*pair.whole, whole), (*pair.streamed, stream))
        if pair.matches():
            return pair
    return pair


def judge_text(pairs: list[Pair], tier: Tier) -> Judgement:
    """The text of a stream is that of the whole answer."""
    for pair in pairs:
        if not pair.matches():
            whole, stream = pair.whole[0], pair.streamed[0]
            raise Violation(
                f"the greedy stream after {pair.prompt[:20]!r} is {_stream_text(stream)!r}, the "
                f"whole answer {read_answer(whole).only().text!r}"
            )
    return passed(f"{len(pairs)} greedy streams equal the whole answers")


def _stream_text(stream: Stream) -> str:
    return read_stream(stream).only().text


async def _observe_repeats(deployment: Deployment) -> list[list[Answer]]:
    """For each prompt, the same greedy request several times."""
    body = {"max_tokens": _TOKENS, "temperature": 0}
    found = []
    for prompt in PROMPTS:
        asked = [deployment.target.complete(prompt=prompt, **body) for _ in range(_NUM_TRIES)]
        found.append([read_answer(reply) for reply in await together(asked)])
    return found


def judge_repeats(repeats: list[list[Answer]], tier: Tier) -> Judgement:
    """At least two of three answers to one greedy request are the same."""
    for answers in repeats:
        texts = [answer.only().text for answer in answers]
        if len(set(texts)) == len(texts):
            raise Violation(f"{len(texts)} greedy answers to one prompt all differ: {texts}")
    return passed(f"greedy answers to {len(repeats)} prompts repeat")


CHECKS = (
    Check(
        "stream-protocol",
        Group.API,
        "Streams are server-sent events that end with [DONE]",
        _observe_streams,
        judge_protocol,
    ),
    Check(
        "stream-finish",
        Group.API,
        "Every choice of a stream ends with one finish reason",
        _observe_streams,
        judge_finish,
    ),
    Check(
        "stream-text",
        Group.API,
        "A stream has the text of the whole answer: nothing lost, nothing twice",
        _observe_pairs,
        judge_text,
    ),
    Check(
        "greedy-repeats",
        Group.API,
        "A greedy request repeats its answer",
        _observe_repeats,
        judge_repeats,
    ),
)
