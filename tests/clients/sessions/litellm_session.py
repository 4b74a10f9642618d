"""A session of litellm's SDK."""

from __future__ import annotations

import json

import litellm
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

litellm.telemetry = False
litellm.suppress_debug_info = True
MESSAGES = [{"role": "user", "content": QUESTION}]


def complete(messages: list[object], model: str = MODEL, **extra: object) -> object:
    settings = {"temperature": 0, "max_tokens": 24, "max_retries": 1, "timeout": 60, **extra}
    return litellm.completion(
        model=f"openai/{model}",
        messages=messages,
        api_base=BASE_URL,
        **{"api_key": API_KEY, **settings},
    )


def plain() -> object:
    choice = complete(MESSAGES).choices[0]
    return [choice.message.content, choice.finish_reason]


def stream() -> object:
    choices = [chunk.choices[0] for chunk in complete(MESSAGES, stream=True)]
    pieces = [choice.delta.content or "" for choice in choices]
    return ["".join(pieces), choices[-1].finish_reason, sum(map(bool, pieces)) > 1]


def usage() -> object:
    whole = complete(MESSAGES).usage
    chunks = list(complete(MESSAGES, stream=True, stream_options={"include_usage": True}))
    reported = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)]
    return [
        [whole.prompt_tokens, whole.completion_tokens],
        [reported[0].prompt_tokens, reported[0].completion_tokens],
        len(reported) == 1,
    ]


def _call_tools(tool_choice: object) -> list[object]:
    """The message with the tool calls, and that of a stream."""
    options = {"tools": [WEATHER], "tool_choice": tool_choice, "max_tokens": 200}
    built = litellm.stream_chunk_builder(list(complete(MESSAGES, stream=True, **options)))
    return [answer.choices[0].message for answer in (complete(MESSAGES, **options), built)]


def tools() -> object:
    message, streamed = _call_tools("auto")
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls
    ]
    last = complete([*MESSAGES, message, *results], tools=[WEATHER], tool_choice="auto")
    return [_calls(message), _calls(streamed), last.choices[0].message.content]


def forced_tool() -> object:
    return list(map(_calls, _call_tools(NAMED_TOOL)))


def _calls(message: object) -> list[list[object]]:
    return [[call.id, call.function.name, call.function.arguments] for call in message.tool_calls]


def json_schema() -> object:
    form = {"name": "person", "strict": True, "schema": SCHEMA}
    answer = complete(
        MESSAGES, response_format={"type": "json_schema", "json_schema": form}, max_tokens=200
    )
    return json.loads(answer.choices[0].message.content)


def errors() -> object:
    results = {}
    for name, (model, prompt, extra) in ERRORS.items():
        try:
            messages = [{"role": "user", "content": prompt}]
            complete(messages, model, api_key=key_for(name), **extra)
        except openai.APIError as error:
            results[name] = describe(error)
    return results


def broken() -> object:
    try:
        list(complete([{"role": "user", "content": "break"}], stream=True))
    except openai.APIError as error:
        return describe(error)
    return "silent"


def cancel() -> object:
    chunks = complete([{"role": "user", "content": "endless"}], stream=True, max_tokens=300)
    for chunk in chunks:
        if chunk.choices[0].delta.content:
            chunks.completion_stream.close()
            return "cancelled"
    return "completed"


run(
    {
        step.__name__: step
        for step in (plain, stream, usage, tools, forced_tool, json_schema, errors, broken, cancel)
    }
)
