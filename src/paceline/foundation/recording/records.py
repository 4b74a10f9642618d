"""The lines of a recording, and its JSON Schema.

A recording is a file of JSON lines. The first is a `Header`; then `RequestRecord`s, each written
when its request ends, and `StepBlock`s, in the order of their writing; the last is an `End`. A file
without an `End`, or whose last line is incomplete, was cut off: what comes before is valid.

A recording holds numbers only: no prompt, no answer, no token id, no request id, no tenant. The
category of a request is a label of at most 32 letters, digits and `._-` that the client chose, or
the kind of its sampling. `python -m paceline.foundation.recording.records >
docs/recording.schema.json` writes the schema.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SCHEMA_VERSION: Literal[1] = 1
SCHEMA_ID = "https://paceline.dev/schemas/recording-1.json"

MAX_CATEGORIES = 64
"""Labels of one recording; requests with further ones are in `OTHER`."""
OTHER = "other"
CATEGORY_PATTERN = r"^[A-Za-z0-9._-]{1,32}$"
_CATEGORY = re.compile(CATEGORY_PATTERN)

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Mean = Annotated[float, Meta(ge=0)]
Category = Annotated[str, Meta(pattern=CATEGORY_PATTERN)]


def is_category(label: object) -> bool:
    """Whether a label may be the category of a request.

    >>> is_category("code"), is_category("my code"), is_category("code\\n"), is_category(3)
    (True, False, False, False)
    """
    return isinstance(label, str) and _CATEGORY.fullmatch(label) is not None


class CostTableRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What steps cost, as the engine measured it at its start: a `CostTable` of the governor."""

    sizes: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(description="Requests.")]
    lengths: Annotated[
        tuple[Count, ...], Meta(description="Draft tokens per request; the first is 0.")
    ]
    verify_s: Annotated[
        tuple[tuple[Seconds, ...], ...],
        Meta(description="Of a step that verifies each of `lengths`, by size, and drafts none."),
    ]
    draft_s: Annotated[
        tuple[tuple[Seconds, ...], ...],
        Meta(description="Added by drafting each of `lengths`, by size."),
    ]
    context_tokens: Annotated[int, Meta(ge=0, description="Of each measured request.")] = 0
    context_s: Annotated[
        Seconds, Meta(description="Added to the target's pass by a further token of context.")
    ] = 0.0
    draft_context_s: Annotated[Seconds, Meta(description="The same for each draft pass.")] = 0.0


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A line; its field `kind` says which."""


class Header(_Line, tag="header", frozen=True, kw_only=True):
    """The engine's limits and its drafter, which the replay needs."""

    schema_version: Literal[1]
    paceline_version: str
    policy: Annotated[str, Meta(description="Policy that chose the draft length at the start.")]
    method: Annotated[str, Meta(description="vLLM's speculative method.")]
    max_draft_length: Count
    allowed_lengths: Annotated[
        tuple[Count, ...] | None,
        Meta(description="Draft lengths with CUDA graphs, ascending; null where all are allowed."),
    ] = None
    drafter_rests: Annotated[
        bool, Meta(description="Whether the draft model is skipped at draft length 0.")
    ] = False
    is_async: Annotated[bool, Meta(description="Asynchronous scheduling.")] = False
    max_num_seqs: Annotated[int, Meta(ge=1)]
    token_budget: Annotated[int, Meta(ge=1, description="vLLM's max_num_batched_tokens.")]
    prefill_chunk_tokens: Annotated[
        int | None, Meta(description="vLLM's long_prefill_token_threshold; null for no limit.")
    ] = None
    graph_sizes: Annotated[
        tuple[Count, ...], Meta(description="Captured CUDA graph sizes, ascending.")
    ] = ()
    cost_table: Annotated[
        CostTableRecord | None, Meta(description="Null where the engine measured no costs.")
    ] = None


class RequestRecord(_Line, tag="request", frozen=True, kw_only=True):
    """One request, written when it ends; all times in seconds since the recording began."""

    category: Category
    arrived_s: Annotated[float, Meta(ge=0, description="0 for a request from before the start.")]
    under_way: Annotated[
        bool, Meta(description="It had output before the recording began, which is not counted.")
    ] = False
    prompt_tokens: Count
    cached_tokens: Annotated[int, Meta(ge=0, description="Of the prompt, by prefix caching.")] = 0
    output_tokens: Count
    first_token_s: Annotated[
        Seconds | None, Meta(description="From its arrival at the engine; null: none seen.")
    ] = None
    ended_s: Annotated[Seconds | None, Meta(description="Null: running at the end.")] = None
    draft_cap: Annotated[Count | None, Meta(description="The request's own cap.")] = None
    asked: Annotated[
        int, Meta(ge=0, description="Steps in which the drafter was asked to draft for it.")
    ] = 0
    tried: Annotated[
        tuple[Count, ...],
        Meta(description="By position: drafts offered there with all before accepted."),
    ] = ()
    accepted: Annotated[tuple[Count, ...], Meta(description="By position: those accepted.")] = ()


class StepCell(msgspec.Struct, frozen=True, array_like=True):
    """Steps of a similar shape, with their mean work and time. Encoded as an array, in order."""

    num_requests: Count
    draft_length: Annotated[int, Meta(ge=0, description="Proposed at the end of the step.")]
    is_clean: Annotated[
        bool,
        Meta(description="Back to back with the step before, and without backfill."),
    ]
    count: Annotated[int, Meta(ge=1)]
    verified_tokens: Annotated[float, Meta(ge=0, description="Mean draft tokens verified.")]
    prefill_tokens: Annotated[float, Meta(ge=0, description="Mean, beyond one per request.")]
    context_tokens: Annotated[float, Meta(ge=0, description="Mean, of all requests together.")]
    seconds: Annotated[float, Meta(ge=0, description="Mean duration.")]
    squares: Annotated[
        float, Meta(ge=0, description="Sum of squared deviations of the duration, seconds².")
    ] = 0.0


class StepBlock(_Line, tag="steps", frozen=True, kw_only=True):
    """The steps of some seconds."""

    from_s: Seconds
    to_s: Seconds
    output_tokens: Count
    cells: tuple[StepCell, ...]


EndReason = Literal["stopped", "size", "time", "engine ended", "failed"]


class End(_Line, tag="end", frozen=True, kw_only=True):
    """The last line."""

    at_s: Seconds
    reason: EndReason


Line = Header | RequestRecord | StepBlock | End

_ENCODER = msgspec.json.Encoder()


def encode(line: Line) -> bytes:
    """One line of the file, with its line break."""
    return _ENCODER.encode(line) + b"\n"


def schema() -> dict[str, object]:
    """The JSON Schema of one line."""
    (root,), components = msgspec.json.schema_components([Line], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "A line of a Paceline recording",
        **root,
        "$defs": components,
    }


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
