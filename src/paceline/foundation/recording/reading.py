"""Read a recording from its file."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path

import msgspec

from paceline.foundation.recording.records import (
    SCHEMA_VERSION,
    End,
    Header,
    Line,
    RequestRecord,
    StepBlock,
)

MAX_LINE_BYTES = 4 * 1024 * 1024
"""A block with 10,000 cells is below 1 MiB."""


class RecordingUnusable(ValueError):
    """The file is not a recording, or of another version."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording: header, requests in the order of arrival, blocks of steps in time order."""

    header: Header
    requests: tuple[RequestRecord, ...]
    blocks: tuple[StepBlock, ...]
    end: End | None
    """None for a recording that was cut off."""

    @property
    def seconds(self) -> float:
        """From its start to its last line."""
        if self.end is not None:
            return self.end.at_s
        ends = [block.to_s for block in self.blocks]
        return max([*ends, *(r.ended_s or r.arrived_s for r in self.requests)], default=0.0)

    @property
    def output_tokens(self) -> int:
        """All output tokens that the engine produced."""
        return sum(block.output_tokens for block in self.blocks)


def read_recording(path: Path) -> Recording:
    """Return the recording in `path`. Raises `RecordingUnusable`, which says what is wrong."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RecordingUnusable(f"{path} cannot be read: {error.strerror}") from None
    return parse_recording(content, str(path))


def parse_recording(content: bytes, name: str) -> Recording:
    """Return the recording in `content`; an incomplete last line is left out."""
    decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
    complete, _, _ = content.removeprefix(codecs.BOM_UTF8).rpartition(b"\n")
    lines = complete.split(b"\n") if complete else []
    header: Header | None = None
    end: End | None = None
    requests: list[RequestRecord] = []
    blocks: list[StepBlock] = []
    for number, line in enumerate(lines, start=1):
        parsed = _parse(decoder, line, name, number)
        if (number == 1) != isinstance(parsed, Header) or end is not None:
            raise RecordingUnusable(
                f"{name}, line {number}: a recording has one header, in line 1, and one end, in "
                "its last line. Give one file that `paceline record` wrote"
            )
        if isinstance(parsed, Header):
            header = parsed
        elif isinstance(parsed, RequestRecord):
            requests.append(_checked(parsed, name, number))
        elif isinstance(parsed, StepBlock):
            blocks.append(parsed)
        else:
            end = parsed
    if header is None:
        raise RecordingUnusable(f"{name} is empty; give a file that `paceline record` wrote")
    requests.sort(key=lambda request: request.arrived_s)
    return Recording(header, tuple(requests), tuple(blocks), end)


def _parse(decoder: msgspec.json.Decoder[Line], line: bytes, name: str, number: int) -> Line:
    if len(line) > MAX_LINE_BYTES:
        raise RecordingUnusable(
            f"{name}, line {number} has {len(line)} bytes; the longest allowed is {MAX_LINE_BYTES}"
        )
    try:
        return decoder.decode(line)
    except msgspec.DecodeError as error:  # ValidationError is one
        version = _version(line) if number == 1 else None
        if version not in (None, SCHEMA_VERSION):
            raise RecordingUnusable(
                f"{name} has schema_version {version!r}; this release reads {SCHEMA_VERSION}"
            ) from None
        raise RecordingUnusable(
            f"{name}, line {number} is no line of a recording: {error}"
        ) from None


def _version(line: bytes) -> object:
    try:
        parsed = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return parsed.get("schema_version") if isinstance(parsed, dict) else None


def _checked(request: RequestRecord, name: str, number: int) -> RequestRecord:
    if len(request.tried) != len(request.accepted) or any(
        accepted > tried for tried, accepted in zip(request.tried, request.accepted, strict=True)
    ):
        raise RecordingUnusable(
            f"{name}, line {number}: accepted is {request.accepted}; it needs one entry per entry "
            f"of tried, {request.tried}, and none may exceed it"
        )
    return request
