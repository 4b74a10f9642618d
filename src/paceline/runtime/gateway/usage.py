"""`Usage`: the tokens of one request, as the engine counted them, found in the bytes of its answer.

Answers are not decoded for it: a search costs microseconds, whatever their length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MARK = b'"usage"'
_OBJECT = re.compile(rb'"usage"\s*:\s*\{')
_PROMPT = re.compile(rb'"(?:prompt|input)_tokens"\s*:\s*(\d{1,15})')
_OUTPUT = re.compile(rb'"(?:completion|output)_tokens"\s*:\s*(\d{1,15})')
_CACHED = re.compile(rb'"cached_tokens"\s*:\s*(\d{1,15})')
_MAX_OBJECT_BYTES = 1024
"""Usage objects have at most a few hundred bytes."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of all prompts and of all answers of a request."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    """Prompt tokens that the engine found in its prefix cache; None where it does not say."""


def usage_in(text: bytes) -> Usage | None:
    """The last usage in an answer, or in an event of a stream; None when there is none.

    Names of OpenAI's chat, completions and embeddings routes, and of its responses route. The mark
    cannot occur inside a JSON string, where quotes are escaped.

    >>> usage_in(b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}')
    Usage(prompt_tokens=3, output_tokens=2, cached_tokens=None)
    """
    if MARK not in text:
        return None
    for found in reversed(list(_OBJECT.finditer(text))):
        content = text[found.end() : found.end() + _MAX_OBJECT_BYTES]
        prompt = _PROMPT.search(content)
        if prompt is None:
            continue
        output, cached = _OUTPUT.search(content), _CACHED.search(content)
        return Usage(
            prompt_tokens=int(prompt[1]),
            output_tokens=0 if output is None else int(output[1]),  # embeddings have none
            cached_tokens=None if cached is None else int(cached[1]),
        )
    return None
