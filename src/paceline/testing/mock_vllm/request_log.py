"""Record what the mock server did for each request, independently of its clients.

A bounded number of records is kept in memory. If a file is given, each request also appends up to
three lines to it, each with a single O_APPEND write, so that they survive SIGKILL:

    {"event": "begun", ...}, {"event": "first_token", ...}, {"event": "ended", ...}

`read_request_log` combines the lines into records. A request with no "ended" line was running when
its process was killed, or is still running.
"""

from __future__ import annotations

import os
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from paceline.testing.mock_vllm.model.vocabulary import pack_ids

MAX_RECORDS = 20_000
"""Ended requests kept in memory: about 1 KB each, 20 MB in all."""


def hash_of_ids(ids: Sequence[int]) -> str:
    """Hash token ids as records do: hex CRC-32 of the ids as little-endian 32-bit integers."""
    return f"{zlib.crc32(pack_ids(ids)):08x}"


@dataclass(slots=True)
class RequestRecord:
    """One request. Times are seconds since the epoch."""

    number: int
    """Number of the request within its process, from 1."""
    pid: int
    request_id: str
    """The header x-request-id; empty if the request had none."""
    route: str
    prompt_hash: str
    """`hash_of_ids` of the first prompt."""
    num_prompt_tokens: int
    max_tokens: int
    seed: int | None
    """None for greedy decoding. If a sampling request named none, the seed the server drew."""
    begun_s: float
    first_token_s: float | None = None
    ended_s: float | None = None
    num_tokens: int = 0
    """Tokens sent to the client."""
    answer_hash: str | None = None
    """`hash_of_ids` of the tokens sent; None for several choices."""
    ending: str | None = None
    """finished, aborted (the client disconnected), died, stopped (the server was closed), or
    `fault:` and the kind of the fault that ended the request. None while the request runs."""


class RequestLog:
    """The records of one server."""

    def __init__(self, path: Path | None) -> None:
        """Open the file for appending, if one is given. Raises `OSError` if that fails."""
        self._open: dict[int, RequestRecord] = {}
        self._ended: OrderedDict[int, RequestRecord] = OrderedDict()
        self._num_begun = 0
        self._file = None
        if path is not None:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def begin(
        self,
        *,
        request_id: str,
        route: str,
        prompts: Sequence[Sequence[int]],
        max_tokens: int,
        seed: int | None,
    ) -> RequestRecord:
        self._num_begun += 1
        record = RequestRecord(
            number=self._num_begun,
            pid=os.getpid(),
            request_id=request_id,
            route=route,
            prompt_hash=hash_of_ids(prompts[0]),
            num_prompt_tokens=sum(map(len, prompts)),
            max_tokens=max_tokens,
            seed=seed,
            begun_s=time.time(),
        )
        self._open[record.number] = record
        self._write("begun", asdict(record))
        return record

    def first_token(self, record: RequestRecord) -> None:
        record.first_token_s = time.time()
        self._write("first_token", _key(record) | {"first_token_s": record.first_token_s})

    def end(self, record: RequestRecord, ending: str) -> None:
        """Record how the request ended. A second ending of the same request is ignored."""
        if record.ending is not None:
            return
        record.ending, record.ended_s = ending, time.time()
        self._open.pop(record.number)
        self._ended[record.number] = record
        if len(self._ended) > MAX_RECORDS:
            self._ended.popitem(last=False)
        fields = {name: getattr(record, name) for name in _FIELDS_AT_END}
        self._write("ended", _key(record) | fields)

    def end_all(self, ending: str) -> None:
        for record in list(self._open.values()):
            self.end(record, ending)

    def render(self) -> bytes:
        """Render the answer of GET /mock_vllm/requests."""
        records = [*self._ended.values(), *self._open.values()]
        return msgspec.json.encode(
            {
                "num_begun": self._num_begun,
                "num_open": len(self._open),
                "num_forgotten": self._num_begun - len(records),
                "records": [asdict(record) for record in records],
            }
        )

    def _write(self, event: str, fields: dict[str, Any]) -> None:
        if self._file is not None:
            os.write(self._file, msgspec.json.encode({"event": event} | fields) + b"\n")


_FIELDS_AT_END = ("ended_s", "num_tokens", "answer_hash", "ending")


def _key(record: RequestRecord) -> dict[str, Any]:
    return {"number": record.number, "pid": record.pid}


def read_request_log(path: Path) -> Iterator[RequestRecord]:
    """Read the records of all processes that wrote to this file, in the order they began.

    `ending` is None for a request whose process was killed, or that is still running. The file may
    grow meanwhile: a last line without its end is left out.
    """
    records: dict[tuple[int, int], dict[str, Any]] = {}
    with path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            fields = msgspec.json.decode(line)
            fields.pop("event")
            records.setdefault((fields["pid"], fields["number"]), {}).update(fields)
    return (RequestRecord(**fields) for fields in records.values())
