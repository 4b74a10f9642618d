"""A session of smolagents.

Its agents give tool results to the model as text, in a message of the user.
"""

from __future__ import annotations

import json

import openai
from smolagents import ChatMessageStreamDelta, OpenAIModel, ToolCallingAgent, tool
from smolagents.models import agglomerate_stream_deltas
from steps import (
    API_KEY,
    BASE_URL,
    ERRORS,
    MODEL,
    NAMED_TOOL,
    QUESTION,
    SCHEMA,
    describe,
    get_weather,
    key_for,
    run,
)

MESSAGES = [{"role": "user", "content": QUESTION}]


def model_of(name: str = MODEL, *, api_key: str = API_KEY, **extra: object) -> OpenAIModel:
    settings = {"temperature": 0, "max_tokens": 24, **extra}
    client = {"max_retries": 1, "timeout": 60}
    return OpenAIModel(name, BASE_URL, api_key, client_kwargs=client, retry=False, **settings)


def plain() -> object:
    message = model_of().generate(MESSAGES)
    return [message.content, message.raw.choices[0].finish_reason]


def stream() -> object:
    """The chunks of a stream have no reason for its end."""
    pieces = [delta.content or "" for delta in model_of().generate_stream(MESSAGES)]
    return ["".join(pieces), None, sum(map(bool, pieces)) > 1]


def usage() -> object:
    whole = model_of().generate(MESSAGES).token_usage
    reported = [
        delta.token_usage
        for delta in model_of().generate_stream(MESSAGES)
        if delta.token_usage is not None
    ]
    return [
        [whole.input_tokens, whole.output_tokens],
        [reported[0].input_tokens, reported[0].output_tokens],
        len(reported) == 1,
    ]


def tools() -> object:
    whole, text = _run_agent(stream_outputs=False)
    streamed, again = _run_agent(stream_outputs=True)
    assert text == again
    return [whole, streamed, text]


def _run_agent(*, stream_outputs: bool) -> tuple[list[list[object]], str]:
    """One step, which calls the tools; then the agent requests the answer, without tools."""
    agent = ToolCallingAgent(
        [tool(get_weather)],
        model_of(),
        stream_outputs=stream_outputs,
        max_steps=1,
        verbosity_level=0,
    )
    text = agent.run(QUESTION)
    (step,) = (step for step in agent.memory.steps if getattr(step, "tool_calls", None))
    assert "rain" in step.observations
    return [[call.id, call.name, call.arguments] for call in step.tool_calls], text


def forced_tool() -> object:
    """One request and one stream without an agent, which would need a tool for its answer."""
    options = {"tools_to_call_from": [tool(get_weather)], "tool_choice": NAMED_TOOL}
    model = model_of(max_tokens=200)
    whole = model.generate(MESSAGES, **options)
    streamed = agglomerate_stream_deltas(list(model.generate_stream(MESSAGES, **options)))
    return [
        [[call.id, call.function.name, json.loads(call.function.arguments)] for call in calls]
        for calls in (whole.tool_calls, streamed.tool_calls)
    ]


def json_schema() -> object:
    form = {"name": "person", "strict": True, "schema": SCHEMA}
    answer = model_of(max_tokens=200).generate(
        MESSAGES, response_format={"type": "json_schema", "json_schema": form}
    )
    return json.loads(answer.content)


def errors() -> object:
    results = {}
    for name, (model, prompt, extra) in ERRORS.items():
        try:
            messages = [{"role": "user", "content": prompt}]
            model_of(model, api_key=key_for(name), **extra).generate(messages)
        except openai.APIError as error:
            results[name] = describe(error)
    return results


def _stream(prompt: str, **extra: object) -> object:
    return model_of(**extra).generate_stream([{"role": "user", "content": prompt}])


def broken() -> object:
    try:
        list(_stream("break"))
    except openai.APIError as error:
        return describe(error)
    return "silent"


def cancel() -> object:
    deltas = _stream("endless", max_tokens=300)
    for delta in deltas:
        assert isinstance(delta, ChatMessageStreamDelta)
        if delta.content:
            deltas.close()
            return "cancelled"
    return "completed"


run(
    {
        step.__name__: step
        for step in (plain, stream, usage, tools, forced_tool, json_schema, errors, broken, cancel)
    }
)
