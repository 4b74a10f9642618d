"""`Prompt`: one request, or the first request of a session, as data."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.foundation.workloads.fields import FieldReader

PROMPT_FIELDS = (
    "messages",
    "prompt",
    "task",
    "category",
    "max_tokens",
    "ignore_eos",
    "turns",
    "reference",
    "id",
    "at",
    "model",
    "answer",
    "tools",
    "tool_choice",
    "response_format",
)
"""Of a prompt in a file. `category` is another name of `task`; `reference` and `id` are for the
user's own scripts; `at`, `model` and `answer` are in the prompts that a gateway captures."""
_TURN_FIELDS = ("content", "think_s", "max_tokens")
_BODY_FIELDS = ("tools", "tool_choice", "response_format")
"""Fields of a prompt that are sent as they are."""

REQUEST_FIELDS: tuple[str | tuple[str, ...], ...] = (
    ("messages", "prompt"),
    ("task", "category"),
    ("max_tokens", "max_completion_tokens", "output_tokens"),
    "ignore_eos",
    *_BODY_FIELDS,
)
"""What is read of a request that stands in another form; one name of each tuple is enough."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A later message of a session: the user reads the answer, thinks, and writes again."""

    content: str
    """The user's message; "" if `recorded` is the whole request."""
    think_s: float = 0.0
    """From the end of the answer before to the time at which this turn is due."""
    max_tokens: int | None = None
    after_s: float | None = None
    """When a recorded trace sends it, from the time at which the session's first request was due;
    it is due at the end of the answer before if that is later. None: `think_s` counts."""
    recorded: Prompt | None = None
    """The request as it was recorded, in place of the messages and answers so far."""

    def __post_init__(self) -> None:
        if not self.think_s >= 0:
            raise ValueError(f"think_s is {self.think_s}; it must be at least 0")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: `messages` for the chat route, or `text` for plain completion."""

    task: str
    """Category under which the summary reports the request."""
    messages: tuple[Mapping[str, Any], ...] | None
    text: str | None
    max_tokens: int | None
    ignore_eos: bool = False
    """Whether the answer has exactly `max_tokens` tokens (an extension of vLLM)."""
    turns: tuple[Turn, ...] = ()
    """Later turns of the session. Each is sent after all messages and answers before it."""
    due_s: float | None = None
    """When a recorded trace sends it, from the start of the trace; None without a schedule."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request's body: tools, tool_choice, response_format."""
    input_tokens: int | None = None
    """For how many tokens the text was made; None for any other text."""

    def __post_init__(self) -> None:
        if (self.messages is None) == (self.text is None):
            raise ValueError("a prompt needs either messages or a prompt text, but not both")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens is {self.max_tokens}; it must be at least 1")
        if self.messages is None and any(turn.recorded is None for turn in self.turns):
            raise ValueError("turns continue a chat; a prompt with turns needs messages")
        if self.ignore_eos and self.max_tokens is None:
            raise ValueError("ignore_eos needs max_tokens, so that the answer ends")


def shuffle_prompts(prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
    """The prompts in the order of `seed`."""
    order = list(prompts)
    random.Random(seed).shuffle(order)
    return order


def parse_prompt(item: object, where: str, default_task: str) -> Prompt:
    """A prompt from parsed JSON; WorkloadError that names `where` for anything else."""
    fields = FieldReader(item, where)
    fields.refuse_unknown(PROMPT_FIELDS)
    return read_prompt(fields, default_task)


def read_request(fields: FieldReader, default_task: str) -> Prompt:
    """The prompt of a request in another tool's form; its model and sampling are not used."""
    fields.refuse_misspelt(REQUEST_FIELDS)
    known = {name: fields.raw(name) for name in PROMPT_FIELDS if name in fields and name != "model"}
    limit = fields.one_of(("max_tokens", "output_tokens"))
    limit = limit or fields.one_of(("max_completion_tokens",))
    if limit is not None:
        known["max_tokens"] = fields.count(limit)
    return read_prompt(FieldReader(known, fields.where), default_task)


def read_prompt(fields: FieldReader, default_task: str, due_s: float | None = None) -> Prompt:
    """The prompt in these fields; the caller has refused unknown ones."""
    messages = fields.raw("messages")
    if messages is not None and not (
        isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages)
    ):
        raise fields.error("messages must be a non-empty list of objects")
    task = fields.word(fields.one_of(("task", "category")) or "task") or default_task
    if not task:
        raise fields.error("task is missing; it must be a non-empty string")
    try:
        prompt = Prompt(
            task=task,
            messages=None if messages is None else tuple(messages),
            text=fields.text("prompt"),
            max_tokens=fields.count("max_tokens"),
            ignore_eos=fields.flag("ignore_eos") or False,
            turns=_read_turns(fields),
            due_s=due_s,
            fields={name: fields.raw(name) for name in _BODY_FIELDS if name in fields},
        )
    except ValueError as error:
        raise fields.error(str(error)) from error
    for number, message in enumerate(prompt.messages or (), start=1):
        if not isinstance(message.get("role"), str):
            raise fields.error(
                f"message {number} has the role {message.get('role')!r}; it must be a string such "
                "as system, user or assistant"
            )
    return prompt


def _read_turns(fields: FieldReader) -> tuple[Turn, ...]:
    turns = []
    for number, item in enumerate(fields.items("turns") or (), start=1):
        where = f"{fields.where}, turn {number}"
        turn = FieldReader({"content": item} if isinstance(item, str) else item, where)
        turn.refuse_unknown(_TURN_FIELDS)
        content = turn.text("content")
        if content is None:
            raise turn.error("content is missing; it must be the text of the user's message")
        turns.append(
            Turn(content, turn.number("think_s", lowest=0) or 0.0, turn.count("max_tokens"))
        )
    return tuple(turns)
