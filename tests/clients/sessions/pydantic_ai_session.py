"""A session of Pydantic AI's agents."""

from __future__ import annotations

from person import Person
from pydantic_ai import (
    Agent,
    ModelAPIError,
    ModelRequest,
    NativeOutput,
    ToolCallPart,
    ToolDefinition,
)
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.vllm import VLLMProvider
from steps import API_KEY, BASE_URL, ERRORS, MODEL, QUESTION, WEATHER, get_weather, key_for, run


def model_of(name: str, api_key: str) -> OpenAIChatModel:
    return OpenAIChatModel(name, provider=VLLMProvider(base_url=BASE_URL, api_key=api_key))


def agent_of(
    model: str = MODEL,
    *,
    api_key: str = API_KEY,
    tools: tuple[object, ...] = (),
    output_type: object = str,
    **extra: object,
) -> Agent:
    settings = {"temperature": 0, "max_tokens": 24, "max_retries": 1, "timeout": 60, **extra}
    return Agent(
        model_of(model, api_key),
        model_settings=settings,
        tools=tools,
        output_type=output_type,
    )


async def plain() -> object:
    result = await agent_of().run(QUESTION)
    return [result.output, result.response.finish_reason]


async def stream() -> object:
    async with agent_of().run_stream(QUESTION) as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
    return ["".join(pieces), result.response.finish_reason, len(pieces) > 1]


async def usage() -> object:
    whole = (await agent_of().run(QUESTION)).usage
    async with agent_of().run_stream(QUESTION) as result:
        await result.get_output()
    streamed = result.usage
    return [
        [whole.input_tokens, whole.output_tokens],
        [streamed.input_tokens, streamed.output_tokens],
        streamed.requests == 1,
    ]


async def tools() -> object:
    agent = agent_of(tools=(get_weather,))
    whole = await agent.run(QUESTION)
    async with agent.run_stream(QUESTION) as streamed:
        text = await streamed.get_output()
    assert whole.output == text
    return [_calls(whole.all_messages()), _calls(streamed.all_messages()), text]


def _calls(messages: list[object]) -> list[list[object]]:
    parts = [part for message in messages for part in message.parts]
    return [
        [part.tool_call_id, part.tool_name, part.args_as_dict()]
        for part in parts
        if isinstance(part, ToolCallPart)
    ]


async def forced_tool() -> object:
    """One request and one stream without an agent, which would force the tool again."""
    function = WEATHER["function"]
    definition = ToolDefinition(
        name=function["name"],
        description=function["description"],
        parameters_json_schema=function["parameters"],
    )
    messages = [ModelRequest.user_text_prompt(QUESTION)]
    settings = {"temperature": 0, "max_tokens": 200, "tool_choice": [definition.name]}
    request = {
        "model_settings": settings,
        "model_request_parameters": ModelRequestParameters(function_tools=[definition]),
    }
    model = model_of(MODEL, API_KEY)
    whole = await model_request(model, messages, **request)
    async with model_request_stream(model, messages, **request) as streamed:
        async for _ in streamed:
            pass
    return [_calls([whole]), _calls([streamed.get()])]


async def json_schema() -> object:
    agent = agent_of(output_type=NativeOutput(Person), max_tokens=200)
    return (await agent.run(QUESTION)).output.model_dump()


async def errors() -> object:
    results = {}
    for name, (model, prompt, extra) in ERRORS.items():
        try:
            await agent_of(model, api_key=key_for(name), **extra).run(prompt)
        except ModelAPIError as error:
            results[name] = _describe(error)
    return results


def _describe(error: ModelAPIError) -> list[object]:
    status = getattr(error, "status_code", None)
    return [type(error).__name__, status, error.provider_error_code]


async def broken() -> object:
    try:
        async with agent_of().run_stream("break") as result:
            await result.get_output()
    except ModelAPIError as error:
        return _describe(error)
    return "silent"


async def cancel() -> object:
    async with agent_of(max_tokens=300).run_stream("endless") as result:
        async for _ in result.stream_text(delta=True, debounce_by=None):
            await result.cancel()
            return "cancelled"
    return "completed"


run(
    {
        step.__name__: step
        for step in (plain, stream, usage, tools, forced_tool, json_schema, errors, broken, cancel)
    }
)
