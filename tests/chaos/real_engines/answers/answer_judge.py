"""Judge the answer of a disturbed engine by what an undisturbed one computes for the same text.

Batches of another size change the order of floating-point sums, so two nearly equal tokens may swap
places. That is the only difference allowed: every other token, an end that is too early or too
late, and everything that cannot be judged is a fault.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from chaos.transcript import Transcript

NUM_LOGPROBS = 20
"""The most log probabilities per position that vLLM and the gateway allow."""


@dataclass(frozen=True, slots=True)
class ForcedToken:
    """A token of an answer, and what an engine computes at its position for the tokens before."""

    token: int
    logprobs: Mapping[int, float]
    """Log probabilities of the `NUM_LOGPROBS` most probable tokens and of this one."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an answer differs from what it should be. The field names are keys of the results."""

    at: int
    """The first token that differs; a character where the token ids are not known."""
    gap_nats: float | None = None
    """How much less probable than the best token the worst one is; None where not computed."""
    fault: str | None = None
    """Why rounding cannot have caused the difference; None when it can."""
    is_tail_unjudged: bool = False
    """Whether what follows the first difference could not be judged."""


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """What all answers are judged by."""

    max_tokens: int
    end_ids: Collection[int]
    """The tokens that end answers."""
    near_tie_nats: float
    """Two log probabilities that differ by no more than this may swap places."""


def find_difference(
    reference: Transcript, answer: Transcript, *, has_ids: bool, is_whole: bool = True
) -> Difference | None:
    """The first difference of two answers; None when they are the same.

    With `has_ids`, both must have token ids. Unless `is_whole`, the answer may be the beginning of
    its reference. A difference without `fault` is to be judged by one of the functions below.
    """
    if has_ids and not answer.ids and (is_whole or answer.text):
        return Difference(0, fault="the answer has no token ids")
    ours: Sequence[object] = answer.ids if has_ids else answer.text
    theirs: Sequence[object] = reference.ids if has_ids else reference.text
    num_common = min(len(ours), len(theirs))
    at = next((i for i in range(num_common) if ours[i] != theirs[i]), num_common)
    if at < num_common:
        return Difference(at)
    if len(ours) > len(theirs):
        return Difference(at, fault="the answer continued after its end")
    if not is_whole:
        is_prefix = reference.text.startswith(answer.text)
        return None if is_prefix else Difference(at, fault=f"the text {answer.text!r}")
    if len(ours) < len(theirs):
        return Difference(at, fault="the answer ended too early")
    if answer.text != reference.text:
        return Difference(at, fault=f"the same tokens as the text {answer.text!r}")
    if answer.finish_reasons != reference.finish_reasons:
        return Difference(at, fault=f"finish reasons {answer.finish_reasons}")
    return None


def judge_ids(
    difference: Difference,
    answer: Transcript,
    forced: Sequence[ForcedToken],
    limits: AnswerLimits,
    *,
    is_whole: bool = True,
) -> Difference:
    """Judge a greedy answer by all of its tokens, those after the first difference included.

    `forced` has one entry for each token of `answer`.
    """
    if len(forced) != len(answer.ids):
        return replace(difference, fault=f"{len(forced)} positions for {len(answer.ids)} tokens")
    gaps = [_gap(one) for one in forced]
    for position, gap in enumerate(gaps):
        if gap is None or gap > limits.near_tie_nats:
            named = "unknown" if gap is None else f"{gap:.3f} nats less probable than the best"
            fault = f"token {position}, {forced[position].token}, is {named}"
            return replace(difference, gap_nats=gap, fault=fault)
    gap = max(gap for gap in gaps if gap is not None)
    return replace(
        difference, gap_nats=gap, fault=_fault_of_end(answer, limits) if is_whole else None
    )


def judge_swap(
    difference: Difference, own: ForcedToken, reference: ForcedToken, limits: AnswerLimits
) -> Difference:
    """Judge a greedy answer under a grammar by its first token that differs.

    The most probable token may not be allowed, so the two tokens are compared with each other.
    `judge_tail` judges what follows them.
    """
    known = own.logprobs.get(own.token), reference.logprobs.get(reference.token)
    if known[0] is None or known[1] is None:
        return replace(difference, fault="the log probabilities of the two tokens are unknown")
    gap = known[1] - known[0]
    if abs(gap) <= limits.near_tie_nats:
        return replace(difference, gap_nats=gap)
    fault = f"{own.token} is {gap:.3f} nats less probable than {reference.token}"
    return replace(difference, gap_nats=gap, fault=fault)


def judge_tail(
    difference: Difference,
    answer: Transcript,
    tail: Sequence[ForcedToken],
    best_allowed: Sequence[float | None],
    limits: AnswerLimits,
    *,
    is_whole: bool = True,
) -> Difference:
    """Judge a greedy answer under a grammar by the tokens after the first one that differs.

    `best_allowed` has, for each of them, the log probability of the most probable token that the
    grammar allows there; None where it forbids the answer's token.
    """
    for position, (one, best) in enumerate(zip(tail, best_allowed, strict=True), difference.at + 1):
        own = one.logprobs.get(one.token)
        if own is None or best is None:
            named = "unknown" if own is None else "forbidden by the grammar"
            return replace(difference, fault=f"token {position}, {one.token}, is {named}")
        if best - own > limits.near_tie_nats:
            named = f"{best - own:.3f} nats less probable than the best allowed one"
            fault = f"token {position}, {one.token}, is {named}"
            return replace(difference, gap_nats=best - own, fault=fault)
    return replace(difference, fault=_fault_of_end(answer, limits) if is_whole else None)


def fault_of_text(answer: Transcript, text_of_ids: str, *, is_whole: bool = True) -> str | None:
    """Why the text of the answer is not that of its tokens; None if it is.

    The last token may be a part of a character.
    """
    half = "\N{REPLACEMENT CHARACTER}"
    text, expected = answer.text.rstrip(half), text_of_ids.rstrip(half)
    if text == expected or (not is_whole and expected.startswith(text)):
        return None
    return f"the text {answer.text!r} for tokens of {text_of_ids!r}"


def judge_sampled(
    answer: Transcript,
    text_of_ids: str,
    forced: Sequence[ForcedToken],
    limits: AnswerLimits,
    *,
    top_k: int,
) -> Difference | None:
    """Judge an answer that is sampled from the `top_k` most probable tokens; None when it is right.

    Its text must be `text_of_ids`, and `forced` has one entry for each of its tokens. A token that
    was lost or doubled is found where it makes the next one improbable.
    """
    if len(forced) != len(answer.ids):
        return Difference(0, fault=f"{len(forced)} positions for {len(answer.ids)} tokens")
    if answer.text != text_of_ids:
        return Difference(0, fault=f"the text {answer.text!r} for tokens of {text_of_ids!r}")
    for position, one in enumerate(forced):
        own = one.logprobs.get(one.token)
        best = sorted(one.logprobs.values(), reverse=True)[:top_k]
        gap = None if own is None or len(best) < top_k else best[-1] - own
        if gap is None or gap > limits.near_tie_nats:
            named = "unknown" if gap is None else f"{gap:.3f} nats below the {top_k} best"
            return Difference(position, gap, f"token {position}, {one.token}, is {named}")
    fault = _fault_of_end(answer, limits)
    return None if fault is None else Difference(len(forced), fault=fault)


def _fault_of_end(answer: Transcript, limits: AnswerLimits) -> str | None:
    is_right = (
        answer.ids[-1] in limits.end_ids
        if answer.finish_reasons == ["stop"]
        else answer.finish_reasons == ["length"] and len(answer.ids) == limits.max_tokens
    )
    return None if is_right else f"it ends with {answer.finish_reasons} at a wrong token"


def _gap(one: ForcedToken) -> float | None:
    own = one.logprobs.get(one.token)
    return None if own is None else max(one.logprobs.values()) - own
