"""A session of openai-python."""

from __future__ import annotations

import json

import openai
from steps import (
    API_KEY,
    BASE_URL,
    ERRORS,
    MODEL,
    NAMED_TOOL,
    QUESTION,
    SCHEMA,
    WEATHER,
    describe,
    key_for,
    run,
)

client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=1, timeout=60)
GREEDY = {"model": MODEL, "temperature": 0, "max_tokens": 24}
MESSAGES = [{"role": "user", "content": QUESTION}]


def plain() -> object:
    answer = client.chat.completions.create(messages=MESSAGES, **GREEDY)
    return [answer.choices[0].message.content, answer.choices[0].finish_reason]


def stream() -> object:
    with client.chat.completions.create(messages=MESSAGES, stream=True, **GREEDY) as chunks:
        choices = [chunk.choices[0] for chunk in chunks]
    pieces = [choice.delta.content or "" for choice in choices]
    return ["".join(pieces), choices[-1].finish_reason, sum(map(bool, pieces)) > 1]


def usage() -> object:
    whole = client.chat.completions.create(messages=MESSAGES, **GREEDY).usage
    options = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(
            messages=MESSAGES, stream=True, stream_options=options, **GREEDY
        )
    )
    reported = chunks[-1].usage
    return [
        [whole.prompt_tokens, whole.completion_tokens],
        [reported.prompt_tokens, reported.completion_tokens],
        [len(chunks[-1].choices), [chunk.usage for chunk in chunks[:-1]].count(None)]
        == [0, len(chunks) - 1],
    ]


def _call_tools(tool_choice: object) -> tuple[object, list[list[object]], list[list[str]]]:
    """The message with the tool calls, its calls, and those of a stream."""
    request = {
        **GREEDY,
        "messages": MESSAGES,
        "tools": [WEATHER],
        "tool_choice": tool_choice,
        "max_tokens": 200,
    }
    message = client.chat.completions.create(**request).choices[0].message
    streamed: dict[int, list[str]] = {}
    for chunk in client.chat.completions.create(stream=True, **request):
        for call in chunk.choices[0].delta.tool_calls or []:
            so_far = streamed.setdefault(call.index, ["", "", ""])
            parts = (call.id, call.function.name, call.function.arguments)
            streamed[call.index] = [
                old + (new or "") for old, new in zip(so_far, parts, strict=True)
            ]
    calls = [[c.id, c.function.name, c.function.arguments] for c in message.tool_calls]
    return message, calls, list(streamed.values())


def tools() -> object:
    message, calls, streamed = _call_tools("auto")
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls
    ]
    last = client.chat.completions.create(
        messages=[*MESSAGES, message, *results], tools=[WEATHER], **GREEDY
    )
    return [calls, streamed, last.choices[0].message.content]


def forced_tool() -> object:
    return list(_call_tools(NAMED_TOOL)[1:])


def json_schema() -> object:
    form = {"name": "person", "strict": True, "schema": SCHEMA}
    answer = client.chat.completions.create(
        messages=MESSAGES,
        response_format={"type": "json_schema", "json_schema": form},
        **{**GREEDY, "max_tokens": 200},
    )
    return json.loads(answer.choices[0].message.content)


def errors() -> object:
    results = {}
    for name, (model, prompt, extra) in ERRORS.items():
        try:
            client.with_options(api_key=key_for(name)).chat.completions.create(
                model=model, messages=[{"role": "user", "content": prompt}], **extra
            )
        except openai.APIError as error:
            results[name] = describe(error)
    return results


def broken() -> object:
    messages = [{"role": "user", "content": "break"}]
    try:
        list(client.chat.completions.create(model=MODEL, messages=messages, stream=True))
    except openai.APIError as error:
        return describe(error)
    return "silent"


def cancel() -> object:
    messages = [{"role": "user", "content": "endless"}]
    request = {**GREEDY, "messages": messages, "max_tokens": 300}
    with client.chat.completions.create(stream=True, **request) as chunks:
        for chunk in chunks:
            if chunk.choices[0].delta.content:
                return "cancelled"
    return "completed"


def models() -> object:
    return [[model.id for model in client.models.list()], client.models.retrieve(MODEL).id]


run(
    {
        step.__name__: step
        for step in (
            plain,
            stream,
            usage,
            tools,
            forced_tool,
            json_schema,
            errors,
            broken,
            cancel,
            models,
        )
    }
)
