"""Prompts become request bodies: route, sampling and overrides."""

import itertools
import json

from paceline.workloads import Prompt, SamplingSettings, build_spec, build_specs

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
