"""Read the answers of completions and chats, whole or streamed, into one form. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.operations.validate.target.exchange import Reply, Stream
from paceline.operations.validate.values import Violation


@dataclass(slots=True)
class Choice:
    """One choice of an answer."""

    text: str = ""
    finish_reasons: list[str] = field(default_factory=list)
    """Every reason that was sent; a sound answer has one."""
    token_ids: list[int] | None = None
    """None where the server shows none."""
    logprobs: Mapping[str, Any] | None = None
    """As sent; of whole completions only."""
    num_after_end: int = 0
    """Events with text after the finish reason."""


@dataclass(slots=True)
class Usage:
    """The tokens that the server counted."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


@dataclass(slots=True)
class Answer:
    """One answer, with its choices by index."""

    asked: str
    choices: dict[int, Choice]
    usage: Usage | None
    prompt_token_ids: list[int] | None = None
    num_usages: int = 1

    def only(self) -> Choice:
        """The choice of an answer that must have one; `Violation` otherwise."""
        if list(self.choices) != [0]:
            raise Violation(
                f"{self.asked}: the choices have indexes {list(self.choices)}, expected [0]"
            )
        return self.choices[0]

    def expect_usage(self) -> Usage:
        """The usage; `Violation` without one."""
        if self.usage is None:
            raise Violation(f"{self.asked}: the answer has no usage")
        return self.usage


def read_answer(reply: Reply) -> Answer:
    """A whole answer. Raises `Violation`."""
    document = reply.expect_ok().document()
    answer = Answer(reply.asked, {}, _usage(document.get("usage"), reply.asked))
    for choice in _choices(document, reply.asked):
        index, message = choice.get("index"), choice.get("message")
        if type(index) is not int or index in answer.choices:
            raise Violation(f"{reply.asked}: a choice has index {index!r}, missing or repeated")
        text = choice.get("text") if message is None else _message_text(_object(message, reply))
        reason = choice.get("finish_reason")
        answer.choices[index] = Choice(
            text=_text(text, reply.asked),
            finish_reasons=[] if reason is None else [str(reason)],
            token_ids=_ids(choice.get("token_ids")),
            logprobs=_logprobs(choice.get("logprobs"), reply.asked),
        )
        answer.prompt_token_ids = answer.prompt_token_ids or _ids(choice.get("prompt_token_ids"))
    answer.prompt_token_ids = answer.prompt_token_ids or _ids(document.get("prompt_token_ids"))
    return answer


def read_stream(stream: Stream) -> Answer:
    """A streamed answer. Raises `Violation`."""
    answer = Answer(stream.asked, {}, None, num_usages=0)
    for chunk in stream.expect_ok().chunks():
        if chunk.get("usage") is not None:
            answer.usage = _usage(chunk["usage"], stream.asked)
            answer.num_usages += 1
        ids = _ids(chunk.get("prompt_token_ids"))
        answer.prompt_token_ids = answer.prompt_token_ids or ids
        for part in _choices(chunk, stream.asked):
            _add_part(answer, part)
    return answer


def _add_part(answer: Answer, part: dict[str, Any]) -> None:
    index, delta = part.get("index"), part.get("delta")
    if type(index) is not int:
        raise Violation(f"{answer.asked}: an event has the choice index {index!r}")
    choice = answer.choices.setdefault(index, Choice())
    text = part.get("text") if delta is None else _message_text(_object(delta, answer))
    text = _text(text or "", answer.asked)
    if choice.finish_reasons and text:
        choice.num_after_end += 1
    choice.text += text
    ids = _ids(part.get("token_ids"))
    if ids is not None:
        choice.token_ids = (choice.token_ids or []) + ids
    if part.get("finish_reason") is not None:
        choice.finish_reasons.append(str(part["finish_reason"]))
    answer.prompt_token_ids = answer.prompt_token_ids or _ids(part.get("prompt_token_ids"))


def _choices(document: Mapping[str, Any], asked: str) -> list[dict[str, Any]]:
    choices = document.get("choices")
    if not isinstance(choices, list) or not all(isinstance(one, dict) for one in choices):
        raise Violation(f"{asked}: choices is {choices!r}, expected a list of objects")
    return choices


def _usage(value: Any, asked: str) -> Usage | None:
    if value is None:
        return None
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    counts = [
        count
        for name in names
        if isinstance(value, dict) and type(count := value.get(name)) is int and count >= 0
    ]
    if len(counts) < len(names):
        raise Violation(f"{asked}: usage is {value!r}, expected counts of tokens")
    return Usage(*counts)


def _ids(value: Any) -> list[int] | None:
    if not isinstance(value, list) or not all(type(one) is int for one in value):
        return None
    return value


def _message_text(message: Mapping[str, Any]) -> Any:
    """What a chat message says: its reasoning, its content and the tools it calls.

    A reasoning model may send no content at all. None of a message that has none of the three.
    """
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    tools = message.get("tool_calls")
    content = message.get("content")
    if not isinstance(content, str | None) or not (reasoning or tools):
        return content
    shown = [one for one in (reasoning, content) if isinstance(one, str)]
    return "".join(shown) + (json.dumps(tools) if tools else "")


def _logprobs(value: Any, asked: str) -> Mapping[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise Violation(f"{asked}: logprobs is {value!r}, expected an object")
    return value


def _text(value: Any, asked: str) -> str:
    if not isinstance(value, str):
        raise Violation(f"{asked}: the text of a choice is {value!r}, expected a string")
    return value


def _object(value: Any, of: Reply | Answer) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Violation(f"{of.asked}: a message is {value!r}, expected an object")
    return value
