"""A session of OpenAI's Agents SDK, which uses `/v1/responses`.

A run does not show why its answer ended. The SDK takes an answer that reaches its length limit for
a failed one, so answers of unlimited form end at a stop string.
"""

from __future__ import annotations

import openai
from agents import (
    Agent,
    ModelSettings,
    OpenAIResponsesModel,
    Runner,
    RunResult,
    RunResultStreaming,
    function_tool,
    set_tracing_disabled,
)
from person import Person
from steps import (
    API_KEY,
    BASE_URL,
    ERRORS,
    MODEL,
    QUESTION,
    describe,
    get_weather,
    key_for,
    run,
)

set_tracing_disabled(True)
STOP = {"stop": [".", "\n"]}


def agent_of(
    model: str = MODEL,
    *,
    api_key: str = API_KEY,
    tools: tuple[object, ...] = (),
    output_type: type | None = None,
    **extra: object,
) -> Agent:
    client = openai.AsyncOpenAI(base_url=BASE_URL, api_key=api_key, max_retries=1, timeout=60)
    return Agent(
        name="session",
        model=OpenAIResponsesModel(model, client),
        model_settings=ModelSettings(**{"temperature": 0, "max_tokens": 24, **extra}),
        tools=list(tools),
        output_type=output_type,
    )


async def _pieces(result: RunResultStreaming) -> list[str]:
    return [
        event.data.delta
        async for event in result.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]


async def plain() -> object:
    return [(await Runner.run(agent_of(extra_body=STOP), QUESTION)).final_output, None]


async def stream() -> object:
    result = Runner.run_streamed(agent_of(extra_body=STOP), QUESTION)
    pieces = await _pieces(result)
    assert result.final_output == "".join(pieces)
    return ["".join(pieces), None, len(pieces) > 1]


async def usage() -> object:
    agent = agent_of(extra_body=STOP)
    whole = (await Runner.run(agent, QUESTION)).context_wrapper.usage
    result = Runner.run_streamed(agent, QUESTION)
    await _pieces(result)
    streamed = result.context_wrapper.usage
    return [
        [whole.input_tokens, whole.output_tokens],
        [streamed.input_tokens, streamed.output_tokens],
        streamed.requests == 1,
    ]


async def tools() -> object:
    whole, streamed = await _run_with_tools(agent_of(tools=(function_tool(get_weather),)))
    assert whole.final_output == streamed.final_output
    return [_calls(whole), _calls(streamed), streamed.final_output]


async def forced_tool() -> object:
    """The agent ends after the tool."""
    tools = (function_tool(get_weather),)
    agent = agent_of(tools=tools, tool_choice="get_weather", max_tokens=200)
    agent.tool_use_behavior = "stop_on_first_tool"
    return [_calls(result) for result in await _run_with_tools(agent)]


async def _run_with_tools(agent: Agent) -> tuple[RunResult, RunResultStreaming]:
    whole = await Runner.run(agent, QUESTION)
    streamed = Runner.run_streamed(agent, QUESTION)
    await _pieces(streamed)
    return whole, streamed


def _calls(result: RunResult | RunResultStreaming) -> list[list[object]]:
    calls = [item.raw_item for item in result.new_items if item.type == "tool_call_item"]
    return [[call.call_id, call.name, call.arguments] for call in calls]


async def json_schema() -> object:
    agent = agent_of(output_type=Person, max_tokens=200)
    return (await Runner.run(agent, QUESTION)).final_output.model_dump()


async def errors() -> object:
    results = {}
    for name, (model, prompt, extra) in ERRORS.items():
        try:
            await Runner.run(agent_of(model, api_key=key_for(name), **extra), prompt)
        except openai.APIError as error:
            results[name] = describe(error)
    return results


async def broken() -> object:
    try:
        await _pieces(Runner.run_streamed(agent_of(), "break"))
    except openai.APIError as error:
        return describe(error)
    return "silent"


async def cancel() -> object:
    result = Runner.run_streamed(agent_of(max_tokens=300), "endless")
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            result.cancel()
    return "cancelled" if result.final_output is None else "completed"


run(
    {
        step.__name__: step
        for step in (plain, stream, usage, tools, forced_tool, json_schema, errors, broken, cancel)
    }
)
