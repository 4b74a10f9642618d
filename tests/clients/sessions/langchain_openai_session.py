"""A session of LangChain's `ChatOpenAI`."""

from __future__ import annotations

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from steps import (
    API_KEY,
    BASE_URL,
    ERRORS,
    MODEL,
    QUESTION,
    SCHEMA,
    WEATHER,
    describe,
    key_for,
    run,
)


def model_of(name: str = MODEL, **extra: object) -> ChatOpenAI:
    settings = {"temperature": 0, "max_tokens": 24, "max_retries": 1, "timeout": 60, **extra}
    return ChatOpenAI(model=name, base_url=BASE_URL, **{"api_key": API_KEY, **settings})


def plain() -> object:
    answer = model_of().invoke(QUESTION)
    return [answer.content, answer.response_metadata["finish_reason"]]


def stream() -> object:
    chunks = list(model_of().stream(QUESTION))
    reasons = [chunk.response_metadata.get("finish_reason") for chunk in chunks]
    pieces = [chunk.content for chunk in chunks]
    return ["".join(pieces), next(filter(None, reasons)), sum(map(bool, pieces)) > 1]


def usage() -> object:
    whole = model_of().invoke(QUESTION).usage_metadata
    reported = [chunk.usage_metadata for chunk in model_of(stream_usage=True).stream(QUESTION)]
    given = [usage for usage in reported if usage]
    return [
        [whole["input_tokens"], whole["output_tokens"]],
        [given[0]["input_tokens"], given[0]["output_tokens"]],
        len(given) == 1,
    ]


def _call_tools(tool_choice: str) -> tuple[object, object, object]:
    """The model with its tools, the message with the tool calls, and that of a stream."""
    bound = model_of(max_tokens=200).bind_tools([WEATHER], tool_choice=tool_choice)
    streamed = None
    for chunk in bound.stream(QUESTION):
        streamed = chunk if streamed is None else streamed + chunk
    return bound, bound.invoke(QUESTION), streamed


def tools() -> object:
    bound, message, streamed = _call_tools("auto")
    results = [ToolMessage("rain", tool_call_id=call["id"]) for call in message.tool_calls]
    last = bound.invoke([HumanMessage(QUESTION), message, *results])
    return [_calls(message), _calls(streamed), last.content]


def forced_tool() -> object:
    return [_calls(message) for message in _call_tools("get_weather")[1:]]


def _calls(message: object) -> list[list[object]]:
    return [[call["id"], call["name"], call["args"]] for call in message.tool_calls]


def json_schema() -> object:
    titled = {"title": "person", "description": "A person.", **SCHEMA}
    model = model_of(max_tokens=200)
    return model.with_structured_output(titled, method="json_schema").invoke(QUESTION)


def errors() -> object:
    results = {}
    for name, (model, prompt, extra) in ERRORS.items():
        try:
            model_of(model, api_key=key_for(name), **extra).invoke(prompt)
        except openai.APIError as error:
            results[name] = describe(error)
    return results


def broken() -> object:
    try:
        list(model_of().stream("break"))
    except openai.APIError as error:
        return describe(error)
    return "silent"


def cancel() -> object:
    chunks = model_of(max_tokens=300).stream("endless")
    for chunk in chunks:
        if chunk.content:
            chunks.close()
            return "cancelled"
    return "completed"


run(
    {
        step.__name__: step
        for step in (plain, stream, usage, tools, forced_tool, json_schema, errors, broken, cancel)
    }
)
