"""Faults of model lists, whole answers, token counts and limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from paceline.testing.fault_injection.fault import (
    Call,
    Fault,
    Reply,
    edit_answer,
    edit_call,
)


def _edit_models(edit: Callable[[dict[str, Any]], None]) -> Callable[[Call, Reply], Reply]:
    def on_reply(call: Call, reply: Reply) -> Reply:
        document = reply.document() if call.path == "/v1/models" else None
        if document is None:
            return reply
        edit(document)
        return replace(reply, body=json.dumps(document).encode())

    return on_reply


def _rename(document: dict[str, Any]) -> None:
    document["data"][0]["id"] = "renamed"


def _empty(document: dict[str, Any]) -> None:
    document["data"] = []


def _lose_end(call: Call, reply: Reply) -> Reply:
    """Every third answer lacks its last word: what a model that was quantized badly may do."""
    return _shorten(call, reply) if call.number % 3 == 0 else reply


def _cut_texts(document: dict[str, Any]) -> None:
    for choice in document["choices"]:
        choice["text"] = choice["text"].rpartition(" ")[0]


_shorten = edit_answer(_cut_texts)


def _set(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(values)


def _add_to_usage(**amounts: int) -> Callable[[dict[str, Any]], None]:
    def edit(document: dict[str, Any]) -> None:
        for name, amount in amounts.items():
            document["usage"][name] += amount

    return edit


def _edit_choices(edit: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def edit_all(document: dict[str, Any]) -> None:
        for choice in document["choices"]:
            edit(choice)

    return edit_all


def _of_message(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(choice: dict[str, Any]) -> None:
        if "message" in choice:
            choice["message"][name] = value

    return edit


def _limit(most: int) -> Callable[[dict[str, Any]], None]:
    def edit(fields: dict[str, Any]) -> None:
        fields["max_tokens"] = most

    return edit


def _name_end(choice: dict[str, Any]) -> None:
    choice["finish_reason"] = "length"


FAULTS = (
    Fault(
        "model-renamed",
        "models",
        "The list names a model that is not served.",
        "'renamed' is not served",
        on_reply=_edit_models(_rename),
    ),
    Fault(
        "model-list-empty",
        "models",
        "The list of models is empty.",
        "no list of models",
        on_reply=_edit_models(_empty),
    ),
    Fault(
        "completion-object",
        "completion-shape",
        "Answers name another object type.",
        "object is 'completion'",
        on_reply=edit_answer(_set(object="completion")),
    ),
    Fault(
        "completion-model",
        "completion-shape",
        "Answers name another model.",
        "model is 'another'",
        on_reply=edit_answer(_set(model="another")),
    ),
    Fault(
        "completion-id",
        "completion-shape",
        "Answers have no id.",
        "id is None",
        on_reply=edit_answer(_set(id=None)),
    ),
    Fault(
        "chat-role",
        "chat-shape",
        "The answer of a chat has the role of the user.",
        "role of the answer is 'user'",
        on_reply=edit_answer(_edit_choices(_of_message("role", "user"))),
    ),
    Fault(
        "chat-empty",
        "chat-shape",
        "The answer of a chat has no text.",
        "the answer is empty",
        on_reply=edit_answer(_edit_choices(_of_message("content", ""))),
    ),
    Fault(
        "usage-off-by-one",
        "usage",
        "Usage counts one output token too many.",
        "usage counts 21 completion tokens, the answer has 20",
        on_reply=edit_answer(_add_to_usage(completion_tokens=1, total_tokens=1)),
    ),
    Fault(
        "usage-total",
        "usage",
        "The total of usage is not the sum.",
        "and a total of",
        on_reply=edit_answer(_add_to_usage(total_tokens=3)),
    ),
    Fault(
        "usage-prompt",
        "usage",
        "Usage counts one prompt token too few.",
        "prompt tokens, the prompt has",
        on_reply=edit_answer(_add_to_usage(prompt_tokens=-1, total_tokens=-1)),
    ),
    Fault(
        "usage-missing",
        "usage",
        "Answers have no usage.",
        "has no usage",
        on_reply=edit_answer(_set(usage=None)),
    ),
    Fault(
        "max-tokens-ignored",
        "max-tokens",
        "max_tokens is replaced by 16.",
        "max_tokens=1 gives 16 tokens",
        on_call=edit_call(_limit(16)),
    ),
    Fault(
        "finish-mislabelled",
        "max-tokens",
        "An answer cut one token early ends by length.",
        "length after 4 of 5",
        on_call=edit_call(
            lambda fields: fields.update(max_tokens=max(1, fields.get("max_tokens", 16) - 1))
        ),
        on_reply=edit_answer(_edit_choices(_name_end)),
    ),
    Fault(
        "answers-worse",
        "quality",
        "Every third answer lacks its last word.",
        "its task score is",
        on_reply=_lose_end,
        deployment="baseline",
    ),
)
