"""What did this server really do? Its own record of every request, independent of who asked.

One record per request in memory, bounded; and, where a path is given, up to three lines per
request in a file, each written with one O_APPEND write, so that they survive SIGKILL:

    {"event": "begun", ...}, {"event": "first_token", ...}, {"event": "ended", ...}

`read_ledger` puts them together; a request that began and never ended died with its process.
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

from paceline.mock_vllm.model.vocabulary import pack_ids

MAX_RECORDS = 20_000
"""Ended requests that are remembered; at some 1 KB each, 20 MB."""


def hash_of_ids(ids: Sequence[int]) -> str:
    """How a ledger names token ids: CRC-32 of them as little-endian 32-bit numbers, in hex."""
    return f"{zlib.crc32(pack_ids(ids)):08x}"


@dataclass(slots=True)
class Record:
    """One request. Times are seconds since the epoch."""

    number: int
    """Counts the requests of this process from 1."""
    pid: int
    request_id: str
    """The header x-request-id; empty when there was none."""
    route: str
    prompt_hash: str
    """`hash_of_ids` of the first prompt."""
    num_prompt_tokens: int
    max_tokens: int
    seed: int | None
    """None when greedy; else also when the server drew it."""
    begun_s: float
    first_token_s: float | None = None
    ended_s: float | None = None
    num_tokens: int = 0
    """Tokens that went out to the peer."""
    answer_hash: str | None = None
    """`hash_of_ids` of the tokens that went out; None with several choices."""
    ending: str | None = None
    """finished, aborted (the peer left), died, stopped (the server closed), or `fault:` and the
    kind of what ended it. None while it goes on."""


class RequestLog:
    """The records of one server."""

    def __init__(self, path: Path | None) -> None:
        """Opens the file for appending; raises `OSError` when it cannot."""
        self._open: dict[int, Record] = {}
        self._ended: OrderedDict[int, Record] = OrderedDict()
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
    ) -> Record:
        self._num_begun += 1
        record = Record(
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

    def first_token(self, record: Record) -> None:
        record.first_token_s = time.time()
        self._write("first_token", _key(record) | {"first_token_s": record.first_token_s})

    def end(self, record: Record, ending: str) -> None:
        """Counts once: a later ending of the same request changes nothing."""
        if record.ending is not None:
            return
        record.ending, record.ended_s = ending, time.time()
        self._open.pop(record.number)
        self._ended[record.number] = record
        if len(self._ended) > MAX_RECORDS:
            self._ended.popitem(last=False)
        told = {name: getattr(record, name) for name in _TOLD_AT_END}
        self._write("ended", _key(record) | told)

    def end_all(self, ending: str) -> None:
        for record in list(self._open.values()):
            self.end(record, ending)

    def render(self) -> bytes:
        """The answer of GET /mock_vllm/ledger."""
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


_TOLD_AT_END = ("ended_s", "num_tokens", "answer_hash", "ending")


def _key(record: Record) -> dict[str, Any]:
    return {"number": record.number, "pid": record.pid}


def read_ledger(path: Path) -> Iterator[Record]:
    """The records of a ledger file, in the order in which they began, of all processes.

    The ending of a request that never ended is None; its process was killed or still runs.
    """
    records: dict[tuple[int, int], dict[str, Any]] = {}
    with path.open("rb") as lines:
        for line in lines:
            fields = msgspec.json.decode(line)
            fields.pop("event")
            records.setdefault((fields["pid"], fields["number"]), {}).update(fields)
    return (Record(**fields) for fields in records.values())
