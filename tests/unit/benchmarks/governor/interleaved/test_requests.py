"""The requests of a turn: equal for equal turns, with the share of prompts that was asked for."""

from __future__ import annotations

from benchmarks.governor.interleaved.phases import Turn, parse_phase
from benchmarks.governor.interleaved.requests import RequestMaker
from paceline.foundation.workloads import Prompt


def encode(prompt: Prompt) -> list[int]:
    """One token per four characters, and eight around a chat."""
    if prompt.text is not None:
        return list(range(len(prompt.text) // 4))
    assert prompt.messages is not None
    return list(range(8 + sum(len(str(message["content"])) // 4 for message in prompt.messages)))


MAKER = RequestMaker(encode, context_tokens=400, prefill_share=0.33)


def turn(name: str, seed: int = 3) -> Turn:
    return Turn(0, parse_phase(name), steps=60, seed=seed)


def test_equal_turns_have_equal_requests() -> None:
    assert MAKER.order_for(turn("4-hard")) == MAKER.order_for(turn("4-hard"))
    assert MAKER.requests(turn("4-hard")) != MAKER.requests(turn("4-hard", seed=4))


def test_the_work_is_a_number_of_tokens_for_every_slot() -> None:
    """And at least 300."""
    assert MAKER.order_for(turn("16-hard"))["num_tokens"] == 16 * 60
    assert MAKER.order_for(turn("4-hard"))["num_tokens"] == 300


def test_batches_are_48_prompts_of_320_characters_run_to_their_end() -> None:
    order = MAKER.order_for(turn("16-code-batches"))
    assert order["num_tokens"] is None
    assert len(order["requests"]) == 48
    assert max(len(request["ids"]) for request in order["requests"]) == 320 // 4
    assert {request["max_tokens"] for request in order["requests"]} == {64}


def test_only_hard_text_is_sampled_and_only_source_code_ignores_its_end() -> None:
    expected = {"predictable": (0, False), "code": (0, True), "hard": (1, True)}
    for text, (temperature, ignores) in expected.items():
        requests = MAKER.requests(turn(f"4-{text}"))
        assert {request.temperature for request in requests} == {temperature}
        assert {request.ignore_eos for request in requests} == {ignores}


def test_predictable_and_hard_requests_take_turns_in_a_mixed_phase() -> None:
    requests = MAKER.requests(turn("4-mixed"))
    assert [request.temperature for request in requests[:4]] == [0, 1, 0, 1]
    assert [request.ignore_eos for request in requests[:4]] == [False, True, False, True]
    assert requests[0] == MAKER.requests(turn("4-predictable"))[0]
    assert requests[1] == MAKER.requests(turn("4-hard"))[0]


def test_the_sampling_of_a_chat_model_does_not_tell_the_kind_of_text() -> None:
    """Of each kind, every other request is sampled; the texts are in the loaded prompts."""
    of_kind = {kind: MAKER.requests(turn(f"4-{kind}")) for kind in ("chat", "quote", "program")}
    for requests in of_kind.values():
        assert [request.temperature for request in requests[:4]] == [0.0, 0.7, 0.0, 0.7]
    lengths = {kind: {len(request.ids) for request in found} for kind, found in of_kind.items()}
    assert max(lengths["chat"]) < min(lengths["quote"])
    any_kind = MAKER.requests(turn("4-any"))
    of_quote = [request for request in any_kind if len(request.ids) in lengths["quote"]]
    assert len(of_quote) == len(any_kind) / 3
    assert {request.temperature for request in of_quote} == {0.0, 0.7}


def test_a_third_of_the_tokens_of_a_prefill_phase_are_prompts() -> None:
    order = MAKER.order_for(turn("16-code-prefill"))
    assert order["spreads_prefills"]
    prompt = sum(len(request["ids"]) for request in order["requests"])
    answers = sum(request["max_tokens"] for request in order["requests"])
    assert 0.31 < prompt / (prompt + answers) < 0.34


def test_a_long_prompt_fills_the_context() -> None:
    assert {len(request.ids) for request in MAKER.requests(turn("4-hard-long"))} == {400}
    chats = [len(request.ids) for request in MAKER.requests(turn("1-predictable-long"))]
    assert 250 < min(chats) <= max(chats) <= 400
