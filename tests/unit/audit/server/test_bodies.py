"""Bodies of requests, and answers in the forms of vLLM and of the OpenAI API."""

from __future__ import annotations

import doctest
import json
import shlex

import pytest

from paceline.workbench.audit.server import bodies
from paceline.workbench.audit.server.bodies import read_answers, render_body, render_curl
from paceline.workbench.audit.server.transport import ServerError
from paceline.workbench.audit.values import GREEDY, Request, SamplingCase

CASE = SamplingCase("case", temperature=0.7, top_k=5, top_p=0.9, presence_penalty=1.0)


def test_every_parameter_is_sent_so_that_no_default_applies() -> None:
    body = render_body(Request((1, 2), CASE, 4, n=3, seed=7), "m", extended=True)
    assert body == {
        "model": "m",
        "prompt": [1, 2],
        "max_tokens": 4,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 5,
        "presence_penalty": 1.0,
        "repetition_penalty": 1.0,
        "return_token_ids": True,
        "n": 3,
        "seed": 7,
    }
    assert render_body(Request("a", GREEDY, 1), "m", extended=True)["top_k"] == -1
    assert "top_k" not in render_body(Request("a", GREEDY, 1), "m")
    assert render_body(Request("a", GREEDY, 1), "m", min_p=True)["min_p"] == 0.0
    assert "min_p" not in render_body(Request("a", GREEDY, 1), "m", extended=True)


def test_drafts_are_switched_off_as_the_server_understands_it() -> None:
    request = Request("a", GREEDY, 1, drafts=False)
    gateway = render_body(request, "m", off_switch="speculation")
    engine = render_body(request, "m", off_switch="vllm_xargs")
    assert gateway["speculation"] == {"max_draft_length": 0}
    assert engine["vllm_xargs"] == {"paceline_max_draft_length": 0}
    assert "speculation" not in render_body(request, "m")


def test_the_curl_line_survives_quotes() -> None:
    words = shlex.split(render_curl("http://m:1/", {"prompt": 'it\'s "quoted"'}))
    assert words[2] == "http://m:1/v1/completions"
    assert json.loads(words[-1]) == {"prompt": 'it\'s "quoted"'}


def test_answers_of_vllm_have_ids_and_the_best_log_probabilities() -> None:
    """The sampled token 9 is added to the best two, and is not one of them."""
    logprobs = {
        "tokens": ["token_id:9"],
        "top_logprobs": [{"token_id:9": -5.0, "token_id:1": -0.5, "token_id:2": -1.0}],
    }
    choice = {
        "index": 0,
        "text": "x",
        "token_ids": [9],
        "prompt_token_ids": [3, 4],
        "finish_reason": "length",
        "logprobs": logprobs,
    }
    [answer] = read_answers({"choices": [choice]}, num_logprobs=2)
    assert answer.tokens == (9,)
    assert answer.prompt_ids == (3, 4)
    assert answer.logprobs == ({1: -0.5, 2: -1.0},)


def test_answers_of_the_openai_api_have_texts_as_tokens() -> None:
    """Choices in another order; with `echo` the first token has no log-probabilities."""
    logprobs = {"tokens": ["a", "b"], "top_logprobs": [None, {"b": -0.1}]}
    choices = [{"index": 1, "text": "y"}, {"index": 0, "text": "x", "logprobs": logprobs}]
    first, second = read_answers({"choices": choices}, num_logprobs=1)
    assert (first.text, second.text) == ("x", "y")
    assert first.tokens == ("a", "b")
    assert first.logprobs == ({"b": -0.1},)


@pytest.mark.parametrize(
    "logprobs",
    [
        {"tokens": ["a"], "top_logprobs": [{"a": None}]},
        {"tokens": ["a"], "top_logprobs": [{"a": float("nan")}]},
        {"tokens": ["a"], "top_logprobs": [{}]},
        {"tokens": ["a"], "top_logprobs": ["a"]},
        {"tokens": [None], "top_logprobs": [{"a": -0.1}]},
        {"tokens": ["a"], "top_logprobs": [{"a": float("-inf")}]},
        {"tokens": ["a"], "top_logprobs": [{"a": float("inf"), "b": -1.0}]},
        {"tokens": ["a"], "top_logprobs": [{"a": 10**400}]},
        {"tokens": ["a"], "top_logprobs": [{"a": 0.5}]},
        {"tokens": ["a", "b"], "top_logprobs": [{"a": -0.1}]},
        {"tokens": ["a", "b"], "top_logprobs": [{"a": -0.1}, None]},
    ],
)
def test_malformed_log_probabilities_are_an_error_of_the_server(logprobs: object) -> None:
    choice = {"index": 0, "text": "a", "logprobs": logprobs}
    with pytest.raises(ServerError, match="malformed choice"):
        read_answers({"choices": [choice]}, num_logprobs=2)


def test_a_token_of_probability_0_is_not_named() -> None:
    """Its -Infinity would make sums and differences NaN, which no comparison finds."""
    logprobs = {"tokens": ["a"], "top_logprobs": [{"b": float("-inf"), "a": 1e-6, "c": -9.0}]}
    choice = {"index": 0, "text": "a", "logprobs": logprobs}
    [answer] = read_answers({"choices": [choice]}, num_logprobs=3)
    assert answer.logprobs == ({"a": 1e-6, "c": -9.0},)


@pytest.mark.parametrize("document", [{}, {"choices": []}, {"choices": [1]}])
def test_an_answer_without_choices_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ServerError, match="without choices"):
        read_answers(document, num_logprobs=None)


def test_the_examples_are_true() -> None:
    result = doctest.testmod(bodies)
    assert result.attempted
    assert not result.failed
