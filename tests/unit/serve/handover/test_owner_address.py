"""No process that connects to the owner's address is lost."""

from __future__ import annotations

import asyncio
import socket

from paceline.serve.handover.owner_address import OwnerAddress, path_of

HOST, PORT = "127.0.0.1", 8
"""No process listens there: only the name of the address counts."""


async def test_a_process_that_connects_while_accepting_is_cancelled_is_accepted_next() -> None:
    """The event loop finds the connection in the iteration in which the task is cancelled."""
    with (
        OwnerAddress() as address,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there,
    ):
        assert address.acquire(HOST, PORT)
        accepting = asyncio.create_task(address.accept())
        await asyncio.sleep(0)
        there.connect(path_of(HOST, PORT))
        asyncio.get_running_loop().call_soon(accepting.cancel)
        await asyncio.wait({accepting})
        assert accepting.cancelled()
        async with asyncio.timeout(60):
            here = await address.accept()
        with here:
            there.send(b"x")
            assert here.recv(1) == b"x"
