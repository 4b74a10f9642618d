"""Prompts become request bodies: route, sampling and overrides."""

import itertools
import json

from paceline.foundation.workloads import Prompt, SamplingSettings, Turn, build_spec, build_specs

GREEDY = SamplingSettings("m", 0.0, None, None, 7, {})
CHAT = Prompt("json", ({"role": "user", "content": "hi"},), None, 64)
CODE = Prompt("code", None, "def f(", 32)


def test_a_chat_prompt_becomes_a_streamed_chat_request_with_usage() -> None:
    spec = build_spec(CHAT, GREEDY, index=3)
    assert (spec.index, spec.task, spec.path) == (3, "json", "/v1/chat/completions")
    assert json.loads(spec.body) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_a_code_prompt_becomes_a_plain_completion() -> None:
    spec = build_spec(CODE, GREEDY, index=0)
    assert spec.path == "/v1/completions"
    assert json.loads(spec.body)["prompt"] == "def f("


def test_a_sampled_request_carries_a_seed_of_its_own_and_overrides() -> None:
    sampling = SamplingSettings("m", 0.7, 0.9, 5, seed=100, extra_body={"top_k": 20})
    body = json.loads(build_spec(CODE, sampling, index=2).body)
    assert body["seed"] == 102
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.7, 0.9, 20)
    assert body["max_tokens"] == 5


def test_specs_repeat_the_prompts_without_end() -> None:
    specs = list(itertools.islice(build_specs([CHAT, CODE], GREEDY), 5))
    assert [spec.task for spec in specs] == ["json", "code", "json", "code", "json"]
    assert [spec.index for spec in specs] == [0, 1, 2, 3, 4]
    assert list(build_specs([], GREEDY)) == []


def test_an_answer_of_fixed_length_ignores_the_end_of_text() -> None:
    body = json.loads(build_spec(Prompt("t", None, "a", 9, ignore_eos=True), GREEDY, 0).body)
    assert (body["max_tokens"], body["ignore_eos"]) == (9, True)


def test_request_ids_name_the_request_and_the_turn() -> None:
    named = SamplingSettings("m", 0.0, None, None, 7, {}, id_prefix="bench-x-0-")
    assert build_spec(CODE, named, index=5, turn=2).request_id == "bench-x-0-5-2"
    assert build_spec(CODE, GREEDY, index=5).request_id is None


def test_each_turn_of_a_session_carries_all_messages_and_answers_before_it() -> None:
    turns = (Turn("and then?", think_s=1.5), Turn("why?", max_tokens=3))
    first = build_spec(Prompt("chat", CHAT.messages, None, 64, turns=turns), GREEDY, index=4)
    assert first.next_turn is not None
    assert first.next_turn.due_s(ended_s=10.0, session_due_s=2.0) == 11.5
    second = first.next_turn.request("hello")
    assert (second.index, second.turn, second.task) == (4, 1, "chat")
    assert json.loads(second.body)["messages"] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "and then?"},
    ]
    assert json.loads(second.body)["max_tokens"] == 64
    assert second.next_turn is not None
    third = second.next_turn.request("this")
    assert [m["content"] for m in json.loads(third.body)["messages"]][-2:] == ["this", "why?"]
    assert json.loads(third.body)["max_tokens"] == 3
    assert third.next_turn is None


def test_sampled_turns_have_seeds_of_their_own() -> None:
    sampling = SamplingSettings("m", 0.7, None, None, seed=100, extra_body={})
    seeds = {
        json.loads(build_spec(CHAT, sampling, index, turn).body)["seed"]
        for index in range(3)
        for turn in range(3)
    }
    assert len(seeds) == 9
