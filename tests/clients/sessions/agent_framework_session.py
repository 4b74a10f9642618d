"""A session of Microsoft's Agent Framework."""

from __future__ import annotations

from agent_framework import Agent, AgentResponse, ChatResponse, FunctionTool, Message
from agent_framework.exceptions import ChatClientException
from agent_framework.openai import OpenAIChatCompletionClient, RawOpenAIChatCompletionClient
from openai import AsyncOpenAI
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


def transport(api_key: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=BASE_URL, api_key=api_key, max_retries=1, timeout=60)


def agent_of(
    model: str = MODEL, *, api_key: str = API_KEY, tools: object = None, **extra: object
) -> Agent:
    client = OpenAIChatCompletionClient(model, async_client=transport(api_key))
    options = {"temperature": 0, "max_tokens": 24, **extra}
    return Agent(client, tools=tools, default_options=options)


async def plain() -> object:
    response = await agent_of().run(QUESTION)
    return [response.text, response.finish_reason]


async def stream() -> object:
    updates = agent_of().run(QUESTION, stream=True)
    pieces = [update.text async for update in updates]
    response = await updates.get_final_response()
    return ["".join(pieces), response.finish_reason, sum(map(bool, pieces)) > 1]


async def usage() -> object:
    whole = (await agent_of().run(QUESTION)).usage_details
    updates = agent_of().run(QUESTION, stream=True)
    contents = [content async for update in updates for content in update.contents]
    streamed = (await updates.get_final_response()).usage_details
    return [
        [whole["input_token_count"], whole["output_token_count"]],
        [streamed["input_token_count"], streamed["output_token_count"]],
        [content.type for content in contents].count("usage") == 1,
    ]


async def tools() -> object:
    agent = agent_of(tools=[get_weather])
    whole = await agent.run(QUESTION)
    streamed = await agent.run(QUESTION, stream=True).get_final_response()
    assert whole.text == streamed.text
    return [_calls(whole), _calls(streamed), streamed.text]


async def forced_tool() -> object:
    """One request and one stream of the client alone, which runs no tool."""
    client = RawOpenAIChatCompletionClient(MODEL, async_client=transport(API_KEY))
    options = {
        "temperature": 0,
        "max_tokens": 200,
        "tools": [FunctionTool(name="get_weather", func=get_weather)],
        "tool_choice": {"mode": "required", "required_function_name": "get_weather"},
    }
    messages = [Message("user", [QUESTION])]
    whole = await client.get_response(messages, options=options)
    streamed = client.get_response(messages, options=options, stream=True)
    return [_calls(whole), _calls(await streamed.get_final_response())]


def _calls(response: AgentResponse | ChatResponse) -> list[list[object]]:
    return [
        [content.call_id, content.name, content.arguments]
        for message in response.messages
        for content in message.contents
        if content.type == "function_call"
    ]


async def json_schema() -> object:
    response = await agent_of(response_format=Person, max_tokens=200).run(QUESTION)
    return response.value.model_dump()


async def errors() -> object:
    results = {}
    for name, (model, prompt, extra) in ERRORS.items():
        try:
            await agent_of(model, api_key=key_for(name), **extra).run(prompt)
        except ChatClientException as error:
            results[name] = _describe(error)
    return results


def _describe(error: ChatClientException) -> list[object]:
    """The framework's class, with the status and code of the client's error that it wraps."""
    assert error.__cause__ is not None
    return [type(error).__name__, *describe(error.__cause__)[1:]]


async def broken() -> object:
    try:
        await agent_of().run("break", stream=True).get_final_response()
    except ChatClientException as error:
        return _describe(error)
    return "silent"


async def cancel() -> object:
    updates = agent_of(max_tokens=300).run("endless", stream=True)
    async for update in updates:
        if update.text:
            await updates.close()
            return "cancelled"
    return "completed"


run(
    {
        step.__name__: step
        for step in (plain, stream, usage, tools, forced_tool, json_schema, errors, broken, cancel)
    }
)
