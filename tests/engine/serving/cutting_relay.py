"""A Unix socket in front of an engine that cuts connections inside their answers."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

_FIRST_CUT_BYTES = 2_000
"""An answer in one piece is shorter; a stream has sent its first tokens by then."""
_CUT_STEP_BYTES = 500
_NUM_STEPS = 9
"""Connections are cut after 2,000 to 6,000 bytes in turn: a stream of 96 tokens is longer."""
_BYTES_PER_READ = 65_536


class CuttingRelay:
    """Serves on `address` while it is entered."""

    def __init__(self, address: Path, engine: Path) -> None:
        self.address = address
        self.is_cutting = False
        self.num_cut = 0
        """Connections cut so far."""
        self._engine = engine
        self._numbers = count()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._relay, self.address)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()

    async def _relay(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        engine, to_engine = await asyncio.open_unix_connection(self._engine)
        requests = asyncio.create_task(_copy(client, to_engine))
        try:
            await self._copy_answers(engine, to_client)
        finally:
            requests.cancel()
            to_engine.transport.abort()
            to_client.transport.abort()

    async def _copy_answers(
        self, engine: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        """Copy until the engine closes the connection or the limit of this connection is reached.

        Bytes count while `is_cutting` is set.
        """
        left = _FIRST_CUT_BYTES + _CUT_STEP_BYTES * (next(self._numbers) % _NUM_STEPS)
        while data := await engine.read(_BYTES_PER_READ):
            left -= len(data) * self.is_cutting
            if left < 0:
                self.num_cut += 1
                return
            to_client.write(data)
            await to_client.drain()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(_BYTES_PER_READ):
        target.write(data)
        await target.drain()
    target.write_eof()
