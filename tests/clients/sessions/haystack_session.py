"""A session of Haystack's `OpenAIChatGenerator`, in an agent and in a pipeline."""

from __future__ import annotations

import json

from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.core.errors import PipelineRuntimeError
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools import Tool
from haystack.utils import Secret
from person import Person
from steps import (
    API_KEY,
    BASE_URL,
    ERRORS,
    MODEL,
    NAMED_TOOL,
    QUESTION,
    WEATHER,
    describe,
    get_weather,
    key_for,
    run,
)

MESSAGES = [ChatMessage.from_user(QUESTION)]


class Stop(Exception):
    """Raised in the callback of a stream that the client no longer wants."""


def generator(
    model: str = MODEL, *, api_key: str = API_KEY, **extra: object
) -> OpenAIChatGenerator:
    return OpenAIChatGenerator(
        Secret.from_token(api_key),
        model,
        api_base_url=BASE_URL,
        generation_kwargs={"temperature": 0, "max_tokens": 24, **extra},
        timeout=60,
        max_retries=1,
    )


def complete(callback: object = None, **extra: object) -> ChatMessage:
    return generator(**extra).run(MESSAGES, callback)["replies"][0]


def plain() -> object:
    reply = complete()
    return [reply.text, reply.meta["finish_reason"]]


def stream() -> object:
    chunks: list[StreamingChunk] = []
    reply = complete(chunks.append)
    pieces = [chunk.content for chunk in chunks if chunk.content]
    assert "".join(pieces) == reply.text
    return [reply.text, reply.meta["finish_reason"], len(pieces) > 1]


def usage() -> object:
    chunks: list[StreamingChunk] = []
    whole = complete().meta["usage"]
    streamed = complete(chunks.append, stream_options={"include_usage": True}).meta["usage"]
    reported = [chunk for chunk in chunks if chunk.meta.get("usage")]
    return [_counts(whole), _counts(streamed), len(reported) == 1]


def _counts(usage: dict[str, int]) -> list[int]:
    return [usage["prompt_tokens"], usage["completion_tokens"]]


def tools() -> object:
    agent = Agent(chat_generator=generator(), tools=[weather_tool()])
    whole = agent.run(messages=MESSAGES)
    streamed = agent.run(messages=MESSAGES, streaming_callback=lambda _: None)
    assert whole["last_message"].text == streamed["last_message"].text
    calls = [_calls(result["messages"]) for result in (whole, streamed)]
    return [*calls, streamed["last_message"].text]


def weather_tool() -> Tool:
    function = WEATHER["function"]
    return Tool(
        function["name"], function["description"], function["parameters"], function=get_weather
    )


def forced_tool() -> object:
    """One request and one stream without an agent, which would force the tool again."""
    forced = generator(tool_choice=NAMED_TOOL, max_tokens=200)
    options = {"tools": [weather_tool()]}
    whole = forced.run(MESSAGES, **options)
    streamed = forced.run(MESSAGES, lambda _: None, **options)
    return [_calls(whole["replies"]), _calls(streamed["replies"])]


def _calls(messages: list[ChatMessage]) -> list[list[object]]:
    return [
        [call.id, call.tool_name, call.arguments]
        for message in messages
        for call in message.tool_calls
    ]


def json_schema() -> object:
    return json.loads(complete(response_format=Person, max_tokens=200).text)


def run_pipeline(prompt: str, callback: object = None, **options: object) -> None:
    pipeline = Pipeline()
    pipeline.add_component("llm", generator(**options))
    messages = [ChatMessage.from_user(prompt)]
    pipeline.run({"llm": {"messages": messages, "streaming_callback": callback}})


def errors() -> object:
    results = {}
    for name, (model, prompt, extra) in ERRORS.items():
        try:
            run_pipeline(prompt, model=model, api_key=key_for(name), **extra)
        except PipelineRuntimeError as error:
            results[name] = _describe(error)
    return results


def _describe(error: PipelineRuntimeError) -> list[object]:
    """Haystack's class, with the status and code of the client's error that it wraps."""
    assert error.__cause__ is not None
    return [type(error).__name__, *describe(error.__cause__)[1:]]


def broken() -> object:
    try:
        run_pipeline("break", lambda _: None)
    except PipelineRuntimeError as error:
        return _describe(error)
    return "silent"


def cancel() -> object:
    def stop(chunk: StreamingChunk) -> None:
        if chunk.content:
            raise Stop

    try:
        generator(max_tokens=300).run([ChatMessage.from_user("endless")], stop)
    except Stop:
        return "cancelled"
    return "completed"


run(
    {
        step.__name__: step
        for step in (plain, stream, usage, tools, forced_tool, json_schema, errors, broken, cancel)
    }
)
