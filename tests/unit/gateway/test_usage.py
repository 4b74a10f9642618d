"""The usage that an engine reports is found in the bytes of its answers."""

from __future__ import annotations

import doctest

import pytest

from paceline.runtime.gateway import usage
from paceline.runtime.gateway.usage import Usage, usage_in

CHAT = (
    b'{"id":"c","choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":3,'
    b'"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}},'
    b'"prompt_logprobs":null}'
)
RESPONSE = (
    b'{"tools":[{"parameters":{"properties":{"usage":{"type":"string"}}}}],'
    b'"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":4},"output_tokens":9,'
    b'"output_tokens_details":{"reasoning_tokens":2},"total_tokens":16},"user":null}'
)
QUOTED = (
    b'{"choices":[{"text":"\\"usage\\":{\\"prompt_tokens\\":9}"}],'
    b'"usage": {"prompt_tokens": 3, "completion_tokens": 0}}'
)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (CHAT, Usage(3, 2, 1)),
        (RESPONSE, Usage(7, 9, 4)),
        (QUOTED, Usage(3, 0)),
        (b'{"data":[],"usage":{"prompt_tokens":3,"total_tokens":3}}', Usage(3, 0)),
        (b'data: {"choices":[{"delta":{}}],"usage":null}\n\n', None),
        (b'{"choices":[]}', None),
        (b'{"usage":{"type":"object"}}', None),
        (b"", None),
    ],
)
def test_the_usage_of_an_answer(answer: bytes, expected: Usage | None) -> None:
    assert usage_in(answer) == expected


def test_of_several_usages_the_last_one_counts() -> None:
    """vLLM repeats the usage in every chunk on request (`continuous_usage_stats`)."""
    chunks = [
        b'data: {"usage":{"prompt_tokens":3,"completion_tokens":%d}}\n\n' % n for n in (1, 2, 3)
    ]
    assert usage_in(b"".join(chunks)) == Usage(3, 3)


def test_the_examples_run() -> None:
    assert doctest.testmod(usage).failed == 0
