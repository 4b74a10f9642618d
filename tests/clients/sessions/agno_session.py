"""A session of Agno's agents.

A run of an agent does not show why its answer ended, and reports an error as its status. The errors
are therefore those of the model.
"""

from __future__ import annotations

from agno.agent import Agent
from agno.exceptions import AgnoError
from agno.models.message import Message
from agno.models.vllm import VLLM
from agno.run.agent import RunCompletedEvent, RunContentEvent, RunOutput, ToolCallCompletedEvent
from agno.tools import tool
from person import Person
from steps import API_KEY, BASE_URL, ERRORS, MODEL, NAMED_TOOL, QUESTION, get_weather, key_for, run


def model_of(model: str = MODEL, *, api_key: str = API_KEY, **extra: object) -> VLLM:
    settings = {"temperature": 0, "max_tokens": 24, **extra}
    return VLLM(id=model, base_url=BASE_URL, api_key=api_key, max_retries=1, timeout=60, **settings)


def agent_of(
    *,
    tools: object = None,
    tool_choice: object = None,
    output_schema: object = None,
    **extra: object,
) -> Agent:
    return Agent(
        model=model_of(**extra),
        tools=tools,
        tool_choice=tool_choice,
        output_schema=output_schema,
        telemetry=False,
    )


def plain() -> object:
    return [agent_of().run(QUESTION).content, None]


def stream() -> object:
    events = agent_of().run(QUESTION, stream=True)
    pieces = [event.content for event in events if isinstance(event, RunContentEvent)]
    return ["".join(filter(None, pieces)), None, sum(map(bool, pieces)) > 1]


def usage() -> object:
    whole = agent_of().run(QUESTION).metrics
    events = agent_of().run(QUESTION, stream=True, stream_events=True)
    (streamed,) = (event.metrics for event in events if isinstance(event, RunCompletedEvent))
    return [
        [whole.input_tokens, whole.output_tokens],
        [streamed.input_tokens, streamed.output_tokens],
        True,
    ]


def tools() -> object:
    whole, events = _run_with_tools(agent_of(tools=[get_weather]))
    (last,) = (event.content for event in events if isinstance(event, RunCompletedEvent))
    assert whole.content == last
    return [_calls(whole.tools), _calls(_called(events)), last]


def forced_tool() -> object:
    """The agent ends after the tool; otherwise it would force the tool again."""
    last_tool = tool(stop_after_tool_call=True)(get_weather)
    agent = agent_of(tools=[last_tool], tool_choice=NAMED_TOOL, max_tokens=200)
    whole, events = _run_with_tools(agent)
    return [_calls(whole.tools), _calls(_called(events))]


def _run_with_tools(agent: Agent) -> tuple[RunOutput, list[object]]:
    """A run, and the events of a streamed one."""
    return agent.run(QUESTION), list(agent.run(QUESTION, stream=True, stream_events=True))


def _called(events: list[object]) -> list[object]:
    return [event.tool for event in events if isinstance(event, ToolCallCompletedEvent)]


def _calls(executions: list[object]) -> list[list[object]]:
    assert [execution.result for execution in executions] == ["rain"] * len(executions)
    return [
        [execution.tool_call_id, execution.tool_name, execution.tool_args]
        for execution in executions
    ]


def json_schema() -> object:
    return agent_of(output_schema=Person, max_tokens=200).run(QUESTION).content.model_dump()


def errors() -> object:
    results = {}
    for name, (model, prompt, extra) in ERRORS.items():
        try:
            model_of(model, api_key=key_for(name), **extra).response([_user(prompt)])
        except AgnoError as error:
            results[name] = _describe(error)
    return results


def _user(prompt: str) -> Message:
    return Message(role="user", content=prompt)


def _describe(error: AgnoError) -> list[object]:
    return [type(error).__name__, error.status_code, error.error_id]


def broken() -> object:
    try:
        list(model_of().response_stream([_user("break")]))
    except AgnoError as error:
        return _describe(error)
    return "silent"


def cancel() -> object:
    events = agent_of(max_tokens=300).run("endless", stream=True)
    for event in events:
        if isinstance(event, RunContentEvent) and event.content:
            events.close()
            return "cancelled"
    return "completed"


run(
    {
        step.__name__: step
        for step in (plain, stream, usage, tools, forced_tool, json_schema, errors, broken, cancel)
    }
)
