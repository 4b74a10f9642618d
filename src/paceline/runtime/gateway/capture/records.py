"""The lines of a capture: what is kept of a request, and its redaction. Pure functions.

A line is a JSON object with `at` (UTC), `model`, `category`, and `messages` (role and content, as a
chat template takes them) or `prompt`; with `capture.answers` also `answer`. There is no tenant, no
key, no address and no request id in it.

The category is the label that the client gave as `paceline_category` in `vllm_xargs`, else the kind
of sampling, as in recordings. No redaction hook sees it: a label is one word (`is_category`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from paceline.foundation.recording.records import OTHER, is_category
from paceline.runtime.gateway.requests.routes import CHAT, COMPLETIONS, RESPONSES
from paceline.runtime.gateway.requests.validation import CheckedRequest

Redact = Callable[[str], str | None]
"""Gets a text and returns what may be kept of it, or None to keep nothing of the request."""

_CATEGORY = "paceline_category"
_BEYOND_TEXT = frozenset({"tools", "functions", "documents", "chat_template", "prompt_embeds"})
"""Fields that add to the prompt something which a line does not hold."""
_STRUCTURED = frozenset({"response_format", "structured_outputs"})
_MESSAGE_KEYS = frozenset({"role", "content", "type", "id", "status"})
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
"""Roles that are kept. Others could hold any text, and no redaction hook sees a role."""
_LINE_ENDS = {text.encode(): b"\\u%04x" % ord(text) for text in ("\u0085", "\u2028", "\u2029")}
"""Characters that JSON allows in a string and some readers of lines take for the end of a line."""


class Message(msgspec.Struct, frozen=True):
    """One message of a chat."""

    role: str
    content: str


class CapturedPrompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line."""

    at: str
    model: str
    category: str
    messages: tuple[Message, ...] | None = None
    prompt: str | None = None
    """Either this or `messages` is set."""
    answer: str | None = None


def read_capture(
    request: CheckedRequest, at: str, answer: str | None = None
) -> CapturedPrompt | None:
    """What is kept of a request; None if its prompt is not only text."""
    if request.num_prompts != 1 or not _BEYOND_TEXT.isdisjoint(request.fields):
        return None
    parsed, messages, prompt = request.parsed, None, None
    if request.route is CHAT:
        messages = _read_messages(parsed["messages"])
    elif request.route is RESPONSES:
        messages = _read_response_input(parsed)
    elif request.route is COMPLETIONS:
        prompt = _read_prompt(parsed["prompt"])
    if messages is None and prompt is None:
        return None
    return CapturedPrompt(
        at=at,
        model=request.model,
        category=category_of(request),
        messages=messages,
        prompt=prompt,
        answer=answer,
    )


def category_of(request: CheckedRequest) -> str:
    """The category of a request. A request without a temperature counts as sampled."""
    arguments = request.parsed.get("vllm_xargs")
    label = arguments.get(_CATEGORY) if isinstance(arguments, Mapping) else None
    if label is not None:
        return str(label) if is_category(label) else OTHER
    if not _STRUCTURED.isdisjoint(request.fields):
        return "structured"
    return "greedy" if request.parsed.get("temperature") == 0 else "sampled"


def redacted(captured: CapturedPrompt, redact: Redact) -> CapturedPrompt | None:
    """The line with every text replaced by what the hook returns; None where it returns None.

    Raises what the hook raises, and TypeError if it returns neither a text nor None.
    """
    messages = captured.messages
    texts: list[str | None] = []
    for text in (
        *(message.content for message in messages or ()),
        captured.prompt,
        captured.answer,
    ):
        kept = None if text is None else redact(text)
        if text is not None and kept is None:
            return None
        if kept is not None and not isinstance(kept, str):
            raise TypeError(f"the redaction hook returned {type(kept).__name__}, not a text")
        texts.append(kept)
    *contents, prompt, answer = texts
    if messages is not None:
        messages = tuple(
            Message(message.role, content or "")
            for message, content in zip(messages, contents, strict=True)
        )
    return msgspec.structs.replace(captured, messages=messages, prompt=prompt, answer=answer)


def encode_line(captured: CapturedPrompt) -> bytes:
    """The line in UTF-8, with its end. Raises UnicodeEncodeError for half a surrogate pair."""
    line = msgspec.json.encode(captured)
    for character, escape in _LINE_ENDS.items():
        line = line.replace(character, escape)
    return line + b"\n"


def read_answer(body: bytes) -> str | None:
    """The text of an answer that was not streamed; None if it is not one choice of text."""
    try:
        document = msgspec.json.decode(body)
        (choice,) = document["choices"]
        text = choice["text"] if "text" in choice else choice["message"]["content"]
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return None
    return text if isinstance(text, str) else None


def _read_messages(messages: Sequence[Any]) -> tuple[Message, ...] | None:
    read = [_read_message(message) for message in messages]
    found = tuple(message for message in read if message is not None)
    return found if len(found) == len(read) else None


def _read_message(message: Mapping[str, Any]) -> Message | None:
    """A message of text; None for one with tool calls, a kind or a role of its own."""
    used = {name for name, value in message.items() if value not in (None, [], "")}
    if not used <= _MESSAGE_KEYS or message.get("type", "message") != "message":
        return None
    role, content = message.get("role"), message.get("content")
    if isinstance(content, list):
        parts = [part if isinstance(part, str) else part.get("text") for part in content]
        texts = [text for text in parts if isinstance(text, str)]
        content = "\n".join(texts) if len(texts) == len(parts) else None
    if not isinstance(role, str) or role not in _ROLES or not isinstance(content, str):
        return None
    return Message(role, content)


def _read_response_input(parsed: Mapping[str, Any]) -> tuple[Message, ...] | None:
    instructions, given = parsed.get("instructions"), parsed["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    if instructions is not None:
        items.insert(0, {"role": "system", "content": instructions})
    return _read_messages(items)


def _read_prompt(prompt: object) -> str | None:
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    return prompt if isinstance(prompt, str) else None
