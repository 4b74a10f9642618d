"""No process that connects to the owner's address is lost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from paceline.foundation.machine import abstract_sockets
from paceline.runtime.serve.handover import taking_over
from paceline.runtime.serve.handover.owner_address import OwnerAddress, has_owner, path_of
from paceline.runtime.serve.handover.taking_over import TakeOver

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


@pytest.fixture
def held_by_another_user(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Abstract addresses have no permissions: anybody may bind one first."""
    monkeypatch.setattr(abstract_sockets, "is_own_user", lambda connected: False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as holder:
        holder.bind(path_of(HOST, PORT))
        holder.listen(0)
        yield holder


def test_another_user_with_the_address_is_no_server_to_take_over_from(
    held_by_another_user: socket.socket,
) -> None:
    assert TakeOver.begin(HOST, PORT) is None
    assert not has_owner(HOST, PORT)


def test_another_user_that_does_not_answer_is_no_server_either(
    held_by_another_user: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking_over, "TIMEOUT_S", 0.05)
    with contextlib.ExitStack() as stack:
        for _ in range(2):  # one more than wait in its queue
            one = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(path_of(HOST, PORT))
        assert TakeOver.begin(HOST, PORT) is None
        assert not has_owner(HOST, PORT)


async def test_a_process_of_this_user_has_the_address() -> None:
    with OwnerAddress() as address:
        assert not has_owner(HOST, PORT)
        assert address.acquire(HOST, PORT)
        assert has_owner(HOST, PORT)
