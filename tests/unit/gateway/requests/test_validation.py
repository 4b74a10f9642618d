"""Do the checks decide every input, and only by what they should?"""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.gateway.http.errors import Refusal
from paceline.gateway.http.strict_json import parse_object
from paceline.gateway.requests.routes import CHAT, COMPLETIONS, ROUTES, Route
from paceline.gateway.requests.validation import CheckedRequest, check_context, check_request
from unit.gateway.conftest import SETTINGS, chat
from unit.gateway.fake_engine import MODEL


def test_a_granted_field_passes() -> None:
    granted = replace(SETTINGS, granted_fields=frozenset({"ignore_eos"}))
    body = json.dumps(chat(ignore_eos=True)).encode()
    assert check_request(CHAT, body, granted).fields == {"model", "messages", "ignore_eos"}


def test_granted_prompt_logprobs_may_be_asked_for_by_echo() -> None:
    granted = replace(SETTINGS, granted_fields=frozenset({"prompt_logprobs"}))
    body = json.dumps({"model": MODEL, "prompt": "a", "echo": True, "logprobs": 3}).encode()
    assert "echo" in check_request(COMPLETIONS, body, granted).fields


def decide(route: Route, body: bytes) -> CheckedRequest | Refusal:
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


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests, st.sampled_from(ROUTES))
def test_any_json_is_either_checked_or_refused(request: dict[str, object], route: Route) -> None:
    """No input makes the checks fail in another way."""
    body = json.dumps(request).encode()
    decision = decide(route, body)
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


def test_the_least_prompt_length_is_exact_for_ids_and_low_for_text() -> None:
    """No token is longer than 1024 characters, so 4096 characters are at least 4 tokens."""
    assert min_tokens(COMPLETIONS, prompt=[5, 6, 7]) == 3
    assert min_tokens(COMPLETIONS, prompt=[[5], [6, 7]]) == 2
    assert min_tokens(COMPLETIONS, prompt="x" * 4096) == 4
    assert min_tokens(COMPLETIONS, prompt=["x", "x" * 2048]) == 2
    parts = [{"type": "text", "text": "x" * 1024}]
    messages = [{"role": "system", "content": "x" * 1024}, {"role": "user", "content": parts}]
    assert min_tokens(CHAT, messages=messages) == 2
    assert min_tokens(COMPLETIONS, prompt=[5, 6, 7], truncate_prompt_tokens=1) == 0


def test_a_text_beyond_any_tokenizer_is_refused_without_the_engine() -> None:
    body = json.dumps({"model": MODEL, "prompt": "x" * (1024 * 11)}).encode()
    request = check_request(COMPLETIONS, body, SETTINGS)
    check_context(request, 11)
    check_context(request, None)
    with pytest.raises(Refusal, match="maximum context length is 10 tokens"):
        check_context(request, 10)


def test_keys_are_counted_over_all_levels() -> None:
    body = b'{"a": {"b": 1, "c": [{"d": 2}]}}'
    assert parse_object(body, max_depth=4, max_keys=4) == {"a": {"b": 1, "c": [{"d": 2}]}}
    with pytest.raises(Refusal, match="more than 3 keys"):
        parse_object(body, max_depth=4, max_keys=3)
    with pytest.raises(Refusal, match="at most 3 levels"):
        parse_object(body, max_depth=3, max_keys=4)


def test_repeated_keys_count_and_take_no_longer_than_others() -> None:
    """The repeats stand behind many single keys; the same work again for each would be seconds."""
    singles = b",".join(b'"k%d":1' % i for i in range(1000))
    body = b"{" + singles + b',"r":1' * 100_000 + b"}"
    with pytest.raises(Refusal, match="more than 20000 keys"):
        parse_object(body, max_depth=64, max_keys=20_000)
    singles = b",".join(b'"k%d":1' % i for i in range(10_000))
    body = b"{" + singles + b',"r":1' * 10_000 + b"}"
    began_s = time.process_time()
    with pytest.raises(Refusal, match="'r' is repeated"):
        parse_object(body, max_depth=64, max_keys=20_000)
    assert time.process_time() - began_s < 0.5  # a few milliseconds; quadratic: over a second


def test_depth_under_a_repeated_key_is_no_fault_of_the_gateway() -> None:
    """Deep enough for one parser and too deep for the other, or not: always a refusal."""
    for depth in range(850, 1000):
        body = b'{"a": ' + b"[" * depth + b"]" * depth + b', "a": 1}'
        with pytest.raises(Refusal):
            parse_object(body, max_depth=64, max_keys=9)


def test_colons_in_text_are_no_keys() -> None:
    assert parse_object(b'{"a": "b: c: d"}', max_depth=1, max_keys=1) == {"a": "b: c: d"}
    with pytest.raises(Refusal, match="'b' is repeated"):
        parse_object(b'{"a": [{"b": ":", "b": 1}]}', max_depth=4, max_keys=9)
