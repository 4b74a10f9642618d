"""The checks accept or refuse every input, and never fail in another way."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.gateway.http.errors import Refusal
from paceline.gateway.requests.routes import CHAT, COMPLETIONS, ROUTES, Route
from paceline.gateway.requests.validation import CheckedRequest, check_context, check_request
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
