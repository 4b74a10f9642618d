"""The checks accept or refuse every input, and never fail in another way."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.requests.routes import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    RESPONSES,
    ROUTES,
    Route,
)
from paceline.runtime.gateway.requests.validation import (
    CheckedRequest,
    check_context,
    check_request,
)
from unit.gateway.conftest import SETTINGS, chat
from unit.gateway.fake_engine import MODEL


def test_a_granted_field_passes() -> None:
    granted = replace(SETTINGS, granted_fields=frozenset({"ignore_eos"}))
    body = json.dumps(chat(ignore_eos=True)).encode()
    assert check_request(CHAT, body, granted).fields == {"model", "messages", "ignore_eos"}


def test_granted_prompt_logprobs_allow_echo() -> None:
    granted = replace(SETTINGS, granted_fields=frozenset({"prompt_logprobs"}))
    body = json.dumps({"model": MODEL, "prompt": "a", "echo": True, "logprobs": 3}).encode()
    assert "echo" in check_request(COMPLETIONS, body, granted).fields


def checked_or_refused(route: Route, body: bytes) -> CheckedRequest | Refusal:
    try:
        return check_request(route, body, SETTINGS)
    except Refusal as refusal:
        return refusal


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
field_names = sorted({name for route in ROUTES for name in route.fields})
requests = st.dictionaries(
    st.sampled_from(field_names) | st.text(max_size=5),
    any_json
    | st.sampled_from([-1, 0, 1, 2**31, 2**63, 0.5, "x", True, [1], ["a"], {}, chat()["messages"]]),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests, st.sampled_from(ROUTES))
def test_any_json_is_either_checked_or_refused(request: dict[str, object], route: Route) -> None:
    """Every refusal is a 400 with a message."""
    body = json.dumps(request).encode()
    decision = checked_or_refused(route, body)
    if isinstance(decision, Refusal):
        assert decision.problem.status == 400
        assert json.loads(decision.problem.body())["error"]["message"]
    else:
        assert all(
            name in route.fields or name == "n" or value is None for name, value in request.items()
        )


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_either_checked_or_refused(body: bytes) -> None:
    with pytest.raises(Refusal):
        check_request(CHAT, body, SETTINGS)


def min_tokens(route: Route, **request: object) -> int:
    body = json.dumps({"model": MODEL, **request}).encode()
    return check_request(route, body, SETTINGS).min_prompt_tokens


def test_the_lower_bound_of_tokens_is_exact_for_ids_and_low_for_text() -> None:
    """No token is longer than 1024 characters, so 4096 characters are at least 4 tokens."""
    assert min_tokens(COMPLETIONS, prompt=[5, 6, 7]) == 3
    assert min_tokens(COMPLETIONS, prompt=[[5], [6, 7]]) == 2
    assert min_tokens(COMPLETIONS, prompt="x" * 4096) == 4
    assert min_tokens(COMPLETIONS, prompt=["x", "x" * 2048]) == 2
    parts = [{"type": "text", "text": "x" * 1024}]
    messages = [{"role": "system", "content": "x" * 1024}, {"role": "user", "content": parts}]
    assert min_tokens(CHAT, messages=messages) == 2
    assert min_tokens(COMPLETIONS, prompt=[5, 6, 7], truncate_prompt_tokens=1) == 0


def test_a_text_too_long_for_any_tokenizer_is_refused_without_the_engine() -> None:
    body = json.dumps({"model": MODEL, "prompt": "x" * (1024 * 11)}).encode()
    request = check_request(COMPLETIONS, body, SETTINGS)
    check_context(request, 11)
    check_context(request, None)
    with pytest.raises(Refusal, match="maximum context length is 10 tokens"):
        check_context(request, 10)


@pytest.mark.parametrize(
    ("route", "fields", "expected"),
    [
        (CHAT, {"min_tokens": 2.0}, 2),
        (CHAT, {"max_completion_tokens": 1e3}, 1000),
        (CHAT, {"truncate_prompt_tokens": -1.0}, -1),
        (COMPLETIONS, {"logprobs": 3.0}, 3),
        (COMPLETIONS, {"best_of": 1.0}, 1),
        (RESPONSES, {"max_output_tokens": 64.0}, 64),
        (EMBEDDINGS, {"dimensions": 256.0}, 256),
        (CHAT, {"stop_token_ids": [1.0, 2]}, [1, 2]),
    ],
)
def test_a_whole_number_may_be_written_as_a_float(
    route: Route, fields: dict[str, object], expected: object
) -> None:
    """JSON has one kind of number. The gateway computes with integers."""
    body = {**chat(), **fields} if route is CHAT else {"model": MODEL, route.prompt_param: "x"}
    request = check_request(route, json.dumps({**body, **fields}).encode(), SETTINGS)
    (name,) = fields
    assert request.parsed[name] == expected
    assert not isinstance(request.parsed[name], float)


def test_whole_floats_count_as_choices_and_as_token_ids() -> None:
    body = json.dumps(chat(n=3.0)).encode()
    assert type(check_request(CHAT, body, SETTINGS).num_choices) is int
    assert check_request(CHAT, body, SETTINGS).num_choices == 3
    assert min_tokens(COMPLETIONS, prompt=[5.0, 6, 7.0]) == 3
    assert min_tokens(COMPLETIONS, prompt=[[5.0], [6.0, 7]]) == 2
    capped = chat(speculation={"max_draft_length": 2.0})
    assert check_request(CHAT, json.dumps(capped).encode(), SETTINGS).needs.caps_drafts


@pytest.mark.parametrize("value", [8.5, 1e-9, -0.5, 1e19, True, "8.0"])
def test_other_numbers_are_refused_as_before(value: object) -> None:
    decision = checked_or_refused(CHAT, json.dumps(chat(max_tokens=value)).encode())
    assert isinstance(decision, Refusal)
    assert decision.problem.param == "max_tokens"


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": ["Be brief."]}, {"role": "user", "content": ["a", "b"]}],
        [{"role": "user", "content": [{"type": "text", "text": "a"}, "b", ""]}],
        [{"role": "user", "content": "x"},
         {"role": "assistant", "content": None, "tool_calls": []},
         {"role": "tool", "tool_call_id": "c", "content": ["1", "2"]}],
    ],
)  # fmt: skip
def test_a_list_of_content_may_have_strings(messages: list[dict[str, object]]) -> None:
    request = check_request(CHAT, json.dumps(chat(messages=messages)).encode(), SETTINGS)
    assert request.num_prompt_tokens < 10


@pytest.mark.parametrize("key", ["image_url", "video_embeds", "input_audio"])
@pytest.mark.parametrize("kind", ["text", "thinking", "input_text"])
def test_a_text_part_cannot_carry_media(kind: str, key: str) -> None:
    """vLLM 0.32 takes a text part with a `uuid` and such a key for media, and loads it."""
    part = {"type": kind, "text": "a", "uuid": "1", key: "http://10.0.0.1/"}
    body = chat(messages=[{"role": "user", "content": ["b", part]}])
    decision = checked_or_refused(CHAT, json.dumps(body).encode())
    assert isinstance(decision, Refusal)
    assert decision.problem.code == "unsupported_content"
    assert decision.problem.param == "messages[0].content[1]"


def test_strings_among_parts_count_towards_the_length() -> None:
    messages = [{"role": "user", "content": ["x" * 2048, {"type": "text", "text": "x" * 2048}]}]
    assert min_tokens(CHAT, messages=messages) == 4
    decision = checked_or_refused(
        CHAT, json.dumps(chat(messages=[{"role": "user", "content": ["a", 5]}])).encode()
    )
    assert isinstance(decision, Refusal)
    assert decision.problem.param == "messages[0].content[1]"


@pytest.mark.parametrize("route", [CHAT, RESPONSES])
def test_what_agents_say_about_themselves_is_harmless(route: Route) -> None:
    body = {
        "model": MODEL,
        route.prompt_param: chat()["messages"] if route is CHAT else "x",
        "client_metadata": {"originator": "agent"},
        "prompt_cache_options": {"ttl": "1h"},
    }
    check_request(route, json.dumps(body).encode(), SETTINGS)
