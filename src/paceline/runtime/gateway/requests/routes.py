"""`Route`: one route that engines answer, as a value. `ROUTES` lists them all.

The paths are the same here and at the engine. Everything specific to a route is in its value; the
code that serves requests names no route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.runtime.gateway.http.stream_reader import UNNAMED, EventNames
from paceline.runtime.gateway.requests.field_checks import Check
from paceline.runtime.gateway.requests.fields import (
    CHAT_FIELDS,
    COMPLETION_FIELDS,
    EMBEDDING_FIELDS,
    RESPONSES_FIELDS,
)
from paceline.runtime.gateway.requests.prompts import (
    PromptSize,
    read_embedding_input,
    read_messages,
    read_prompt,
    read_response_input,
)
from paceline.runtime.gateway.requests.tools import CHAT_TOOLS, RESPONSES_TOOLS


@dataclass(frozen=True, slots=True)
class Route:
    """One route that engines answer."""

    path: str
    prompt_param: str
    """The field that holds the prompt."""
    fields: Mapping[str, Check]
    read_prompt: Callable[[Mapping[str, Any]], PromptSize]
    """The size of the prompt of a body, see `prompts`."""
    tool_kinds: tuple[str, ...] = ()
    """Kinds of tools that clients may declare; empty where there are none."""
    content: str = "choices"
    """The field of an answer that holds its content."""
    event_names: EventNames = UNNAMED
    """Which events of its streams mean what."""
    names_events: bool = False
    """Its events have an `event:` line and a `sequence_number`."""
    generates: bool = True
    """Whether its answers are generated token by token."""


CHAT = Route("/v1/chat/completions", "messages", CHAT_FIELDS, read_messages, tool_kinds=CHAT_TOOLS)
COMPLETIONS = Route("/v1/completions", "prompt", COMPLETION_FIELDS, read_prompt)
EMBEDDINGS = Route(
    "/v1/embeddings",
    "input",
    EMBEDDING_FIELDS,
    read_embedding_input,
    content="data",
    generates=False,
)
RESPONSES = Route(
    "/v1/responses",
    "input",
    RESPONSES_FIELDS,
    read_response_input,
    tool_kinds=RESPONSES_TOOLS,
    content="output",
    event_names=EventNames(
        end=frozenset({"response.completed", "response.incomplete"}),
        error=frozenset({"error", "response.failed"}),
        # vLLM sends the first three before it computes the prompt, the others with a token to come
        before_tokens=frozenset(
            {
                "response.queued",
                "response.created",
                "response.in_progress",
                "response.output_item.added",
                "response.content_part.added",
                "response.reasoning_part.added",
            }
        ),
    ),
    names_events=True,
)

ROUTES: tuple[Route, ...] = (CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES)
