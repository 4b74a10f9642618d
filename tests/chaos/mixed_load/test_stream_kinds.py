"""Text that is lost, doubled or changed in a stream of any kind is found."""

from __future__ import annotations

import pytest

from chaos.expected_requests import ExpectedRequest
from chaos.mixed_load.stream_kinds import KINDS, StreamKind
from chaos.transcript import Transcript
from paceline.testing.mock_vllm import RequestRecord, expected_answer, hash_of_ids
from paceline.testing.mock_vllm.model.detokenizer import Detokenizer

MAX_TOKENS = 40
BY_NAME = {kind.name: kind for kind in KINDS}
CANNOT_CONTINUE = [kind for kind in KINDS if not kind.is_continuable]


def received(request: ExpectedRequest) -> Transcript:
    """The whole answer, as its client receives it."""
    answer = request.answer
    ids = list(answer.ids) if request.body.get("return_token_ids") else []
    return Transcript(
        status=200,
        text=answer.text,
        ids=ids,
        finish_reasons=[answer.finish_reason],
        usage={"completion_tokens": len(answer.ids)},
        is_done=True,
        num_done=1,
    )


def failed(request: ExpectedRequest, text: str) -> Transcript:
    return Transcript(status=200, text=text, error={"message": "broken"})


def record(request: ExpectedRequest, emitted: tuple[int, ...] = (), seed: int = 0) -> RequestRecord:
    prompt = [*request.prompt_ids, *emitted]
    return RequestRecord(1, 2, "id", "route", hash_of_ids(prompt), len(prompt), 9, seed, 0.0)


def errors(
    kind: StreamKind,
    request: ExpectedRequest,
    transcript: Transcript,
    *records: RequestRecord,
    num_struck: int = 0,
) -> list[str]:
    return kind.errors_in(request, transcript, records or (record(request),), num_struck=num_struck)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_faults_of_a_whole_answer_are_found(kind: StreamKind) -> None:
    request = kind.request(0, MAX_TOKENS)
    whole = received(request)
    assert errors(kind, request, whole) == []
    for text in (whole.text[:-3], whole.text[:9] + whole.text[8:], whole.text + "x"):
        changed = received(request)
        changed.text = text
        assert errors(kind, request, changed)
    silent = received(request)
    silent.is_done = False
    assert errors(kind, request, silent)


@pytest.mark.parametrize("kind", CANNOT_CONTINUE, ids=lambda kind: kind.name)
def test_what_cannot_be_continued_may_end_with_an_error_if_its_replica_was_struck(
    kind: StreamKind,
) -> None:
    request = kind.request(0, MAX_TOKENS)
    beginning = failed(request, request.answer.text[:9])
    assert errors(kind, request, beginning, num_struck=1) == []
    (unexplained,) = errors(kind, request, beginning)
    assert "although 0 replicas failed under it" in unexplained
    lost = failed(request, "")
    assert errors(kind, request, lost, num_struck=1)
    assert errors(kind, request, lost, num_struck=2) == []
    changed = failed(request, "x" + request.answer.text[:9])
    assert errors(kind, request, changed, num_struck=1)


@pytest.mark.parametrize("name", ["greedy", "sampled"])
def test_a_stream_that_lost_two_replicas_may_end_with_an_error_after_a_right_beginning(
    name: str,
) -> None:
    kind = BY_NAME[name]
    request = kind.request(1, MAX_TOKENS)
    records = [record(request, seed=request.body.get("seed", 0))]
    text = request.answer.text

    def errors_beyond(text: str, records: list[RequestRecord]) -> list[str]:
        transcript = failed(request, text)
        return kind.errors_in(request, transcript, records, num_struck=2)

    assert kind.errors_in(request, failed(request, text[:9]), records, num_struck=1)
    assert errors_beyond(text[:9], records) == []
    lost = failed(request, "")
    assert kind.errors_in(request, lost, records, num_struck=1)
    assert errors_beyond("", records) == []
    assert errors_beyond("x" + text[:9], records)
    if name == "sampled":
        wrong = [record(request, (1, 2), seed=request.body["seed"])]
        assert errors_beyond(text[:1], [*records, *wrong])


def test_a_first_token_may_have_no_text() -> None:
    kind = BY_NAME["tools"]
    half_a_character = failed(kind.request(0, MAX_TOKENS), "")
    choices = [{"delta": {"role": "assistant", "content": ""}}]
    half_a_character.note_chunk({"choices": choices})
    assert not half_a_character.has_first_token
    half_a_character.note_chunk({"choices": [{"delta": {"content": ""}}]})
    assert half_a_character.has_first_token


def test_what_can_be_continued_may_not_end_with_an_error() -> None:
    request = BY_NAME["greedy"].request(0, MAX_TOKENS)
    assert errors(BY_NAME["greedy"], request, failed(request, request.answer.text[:9]))


def test_a_continued_sampled_stream_is_compared_with_the_seed_of_its_continuation() -> None:
    kind = BY_NAME["sampled"]
    request = kind.request(0, MAX_TOKENS)
    emitted = request.answer.ids[:9]
    other_seed = record(request, emitted, seed=77)
    assert errors(kind, request, received(request), record(request), other_seed)
    wrong_prompt = record(request, (*emitted[:-1], emitted[-1] + 1))
    found = errors(kind, request, received(request), record(request), wrong_prompt)
    assert "a replica's prompt was not" in found[0]


def test_of_two_continuations_from_the_same_token_either_may_have_reached_the_client() -> None:
    kind = BY_NAME["sampled"]
    request = kind.request(0, MAX_TOKENS)
    emitted = request.answer.ids[:9]
    rest = expected_answer([*request.prompt_ids, *emitted], MAX_TOKENS - 9, seed=77)
    detokenizer = Detokenizer(request.prompt_ids)
    stream = received(request)
    stream.text = "".join(map(detokenizer.feed, (*emitted, *rest.ids)))
    stream.usage = {"completion_tokens": 9 + len(rest.ids)}
    first, *continued = [record(request), *(record(request, emitted, seed=n) for n in (77, 78))]
    assert errors(kind, request, stream, first, *continued) == []
    assert errors(kind, request, stream, first, *reversed(continued)) == []
    assert errors(kind, request, stream, first, continued[1])
