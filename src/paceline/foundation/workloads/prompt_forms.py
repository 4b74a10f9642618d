"""Prompts in the forms of public data sets: one record of such a form as a `Prompt`.

A record of none of these forms is read as `prompts` documents it. docs/bench.md lists the forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.foundation.workloads.fields import FieldReader
from paceline.foundation.workloads.prompts import Prompt, Turn, parse_prompt, read_request

_BYTES_PER_TOKEN = 4
"""Of a recorded answer, for its limit: about right for English, code and Chinese alike. Chosen
empirically; a tokenizer is not at hand."""
_ROLES = {
    "human": "user",
    "user": "user",
    "tool": "user",
    "observation": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "assistant": "assistant",
    "function_call": "assistant",
    "system": "system",
}
"""Who speaks, in ShareGPT's files and those of agents in its form, and the role of the OpenAI API.
The result of a tool is what the model reads next, as a message of the user is."""


@dataclass(frozen=True, slots=True)
class PromptForm:
    """A form of records that another tool or data set uses."""

    name: str
    is_of: Callable[[Mapping[str, Any]], bool]
    """Whether a record has this form; it looks at the record's fields only."""
    read: Callable[[FieldReader, str], Prompt | None]
    """From a record, and the task for one that names none, to its prompt; None for a record
    without a message of a user. Raises WorkloadError."""


def read_any_prompt(item: object, where: str, default_task: str) -> Prompt | None:
    """The prompt of a record in any form; None for a record without a message of a user.

    Raises WorkloadError that names `where`.

    >>> read_any_prompt({"text": "Why?"}, "file, line 1", "prompts").messages
    ({'role': 'user', 'content': 'Why?'},)
    """
    if isinstance(item, dict):
        form = _find_form(item)
        if form is not None:
            return form.read(FieldReader(item, where), default_task)
        if item and not {"messages", "prompt"} & item.keys():
            raise FieldReader(item, where).error(
                f"it has {', '.join(map(str, item))}; give messages or prompt, or the fields of a "
                f"public form ({'; '.join(form.name for form in FORMS)})"
            )
    return parse_prompt(item, where, default_task)


def _find_form(item: Mapping[str, Any]) -> PromptForm | None:
    """The public form of a record; None for Paceline's own, which has `messages` or a `prompt`.

    Other texts beside these are not the prompt. vLLM's `custom` form alone has a `prompt`.
    """
    if item.get("messages") is not None:
        return None
    if item.get("prompt") is not None:
        return _VLLM_CUSTOM if _VLLM_CUSTOM.is_of(item) else None
    return next((form for form in FORMS if form.is_of(item)), None)


def read_conversation(fields: FieldReader, default_task: str) -> Prompt | None:
    """ShareGPT: the messages of the user are the turns of a session; answers are generated anew.

    A recorded answer only limits the length of the new one; an empty one does not.
    """
    name = "conversations" if "conversations" in fields else "conversation"
    items = fields.raw(name)
    if not isinstance(items, list):
        raise fields.error(f"{name} is {type(items).__name__}; it must be a list of messages")
    system: list[str] = []
    questions: list[str] = []
    limits: list[int | None] = []
    last = None
    for number, item in enumerate(items, start=1):
        role, text = _read_message(FieldReader(item, f"{fields.where}, message {number}"))
        if role == "system":
            system.append(text)
        elif role == "user" and text.strip():
            if last == "user":
                questions[-1] += f"\n\n{text}"
            else:
                questions.append(text)
                limits.append(None)
        elif role == "assistant" and last == "user" and text.strip():
            limits[-1] = max(1, -(-len(text.encode()) // _BYTES_PER_TOKEN))
        last = role if text.strip() else last
    if not questions:
        return None
    first = [{"role": "system", "content": text} for text in system if text.strip()]
    return Prompt(
        task=default_task,
        messages=(*first, {"role": "user", "content": questions[0]}),
        text=None,
        max_tokens=limits[0],
        turns=tuple(
            Turn(question, 0.0, limit)
            for question, limit in zip(questions[1:], limits[1:], strict=True)
        ),
    )


def _read_message(fields: FieldReader) -> tuple[str, str]:
    """The role and the text of one message."""
    fields.refuse_misspelt((("from", "role"), ("value", "content")))
    speaker = fields.text(fields.one_of(("from", "role")) or "from")
    if speaker is None or speaker.lower() not in _ROLES:
        raise fields.error(f"it is from {speaker!r}; it must be from one of {', '.join(_ROLES)}")
    return _ROLES[speaker.lower()], fields.text(
        fields.one_of(("value", "content")) or "value"
    ) or ""


def _read_questions(fields: FieldReader, default_task: str) -> Prompt | None:
    """Spec-Bench and MT-Bench: `turns` are the messages of the user."""
    fields.refuse_misspelt(("turns", "category"))
    texts = [text for text in fields.raw("turns") if text.strip()]
    return _session(texts, fields.word("category") or default_task)


def _read_texts(fields: FieldReader, default_task: str) -> Prompt | None:
    """AIPerf and GenAI-Perf: `text`, or `turns` of `text` with a delay in milliseconds."""
    if "turns" not in fields:
        fields.refuse_misspelt((("text", "turns"), "output_length"))
        return Prompt(
            task=default_task,
            messages=({"role": "user", "content": fields.word("text")},),
            text=None,
            max_tokens=fields.count("output_length"),
        )
    messages: list[dict[str, str]] = []
    turns: list[Turn] = []
    for number, item in enumerate(fields.raw("turns"), start=1):
        turn = FieldReader(item, f"{fields.where}, turn {number}")
        turn.refuse_misspelt(("text", "role", "delay", "output_length"))
        text, delay_ms = turn.word("text"), turn.number("delay", lowest=0) or 0.0
        if text is None:
            raise turn.error("text is missing; it must be the text of the user's message")
        if turn.text("role") == "system" and not turns and not messages:
            messages.append({"role": "system", "content": text})
        else:
            turns.append(Turn(text, delay_ms / 1000, turn.count("output_length")))
    if not turns:
        return None
    first, *later = turns
    return Prompt(
        task=default_task,
        messages=(*messages, {"role": "user", "content": first.content}),
        text=None,
        max_tokens=first.max_tokens,
        turns=tuple(later),
    )


def _read_batch_line(fields: FieldReader, default_task: str) -> Prompt | None:
    """OpenAI's Batch API: the request is under `body`; its model and sampling are not used."""
    return read_request(FieldReader(fields.raw("body"), f"{fields.where}, body"), default_task)


def _read_instruction(fields: FieldReader, default_task: str) -> Prompt | None:
    """Alpaca and Dolly: an instruction, and a text that it is about."""
    fields.refuse_misspelt(("instruction", ("input", "context"), "category"))
    about = fields.text("input") or fields.text("context")
    instruction = fields.text("instruction") or ""
    text = f"{instruction}\n\n{about}" if about else instruction
    task = fields.text("category") or default_task
    return _session([text] if text.strip() else [], task)


def _read_custom(fields: FieldReader, default_task: str) -> Prompt | None:
    """vLLM's `custom` data set: a prompt, and `output_tokens`, the limit of its answer."""
    return read_request(fields, default_task)


def _session(texts: list[str], task: str) -> Prompt | None:
    if not texts:
        return None
    first, *later = texts
    message = {"role": "user", "content": first}
    return Prompt(task, (message,), None, None, turns=tuple(Turn(text) for text in later))


def _has_turns(item: Mapping[str, Any], kind: type) -> bool:
    turns = item.get("turns")
    return isinstance(turns, list) and bool(turns) and all(isinstance(turn, kind) for turn in turns)


_VLLM_CUSTOM = PromptForm(
    "vLLM custom",
    lambda item: isinstance(item.get("prompt"), str) and "output_tokens" in item,
    _read_custom,
)
FORMS = (
    PromptForm(
        "ShareGPT",
        lambda item: "conversations" in item or "conversation" in item,
        read_conversation,
    ),
    PromptForm("Spec-Bench, MT-Bench", lambda item: _has_turns(item, str), _read_questions),
    PromptForm(
        "AIPerf, GenAI-Perf",
        lambda item: _has_turns(item, dict) or isinstance(item.get("text"), str),
        _read_texts,
    ),
    PromptForm("OpenAI batch", lambda item: isinstance(item.get("body"), dict), _read_batch_line),
    PromptForm("Alpaca, Dolly", lambda item: "instruction" in item, _read_instruction),
    _VLLM_CUSTOM,
)
"""In the order in which a record is tried."""
