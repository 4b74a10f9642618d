"""What a new process does at each point at which the old one may end, refuse or hang."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from paceline.runtime.serve.handover import taking_over
from paceline.runtime.serve.handover.connection import Connection
from paceline.runtime.serve.handover.messages import (
    VERSION,
    Changes,
    Message,
    Offer,
    Owned,
    Refused,
    Released,
    Take,
)
from paceline.runtime.serve.handover.owner_address import OwnerAddress
from paceline.runtime.serve.handover.taking_over import TakeOver, TakeOverFailed

HOST, PORT = "127.0.0.1", 7
"""No process listens there: only the names of the addresses count."""
SO_FAR, FINAL = Changes(fleet={"drained": ["a"]}), Changes(fleet={"drained": ["b"]})


class OldProcess:
    """The other side, step by step."""

    def __init__(self) -> None:
        self.address = OwnerAddress()
        assert self.address.acquire(HOST, PORT)
        self.connection = Connection(socket.socket())

    async def offer(self, message: Message) -> None:
        self.connection = Connection(await self.address.accept())
        with socket.create_server((HOST, 0)) as data, socket.create_server((HOST, 0)) as admin:
            self.connection.send(message, [data.fileno(), admin.fileno()])

    async def receive_take(self) -> None:
        assert isinstance(await self.connection.receive(60), Take)


@pytest.fixture(autouse=True)
def long_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the tests of the time limit shorten it, once nothing else waits that long."""
    monkeypatch.setattr(taking_over, "TIMEOUT_S", 60.0)


@contextlib.asynccontextmanager
async def offered() -> AsyncIterator[tuple[OldProcess, TakeOver]]:
    old = OldProcess()
    offering = asyncio.create_task(old.offer(Offer(VERSION, 123, (), SO_FAR)))
    taken = await asyncio.to_thread(TakeOver.begin, HOST, PORT)
    await offering
    assert taken is not None
    try:
        yield old, taken
    finally:
        taken.close()
        old.connection.close()
        old.address.give_up()


async def test_after_released_the_new_process_owns_and_says_so() -> None:
    async with offered() as (old, taken):
        with OwnerAddress() as address:
            taking = asyncio.create_task(taken.take(address, HOST, PORT))
            await old.receive_take()
            assert not taken.is_owner
            old.address.give_up()
            old.connection.send(Released(FINAL))
            assert await taking == FINAL
            assert (taken.is_owner, address.is_held) == (True, True)
            assert isinstance(await old.connection.receive(60), Owned)
            waiting = asyncio.create_task(taken.wait_old_ended())
            await asyncio.sleep(0)
            assert not waiting.done()
            old.connection.close()
            await asyncio.wait_for(waiting, 60)


@pytest.mark.parametrize("moment", ["before Take", "before Released", "after Released"])
async def test_the_new_process_owns_when_the_old_one_has_ended(moment: str) -> None:
    async with offered() as (old, taken):
        with OwnerAddress() as address:
            if moment == "before Take":
                old.connection.close()
                old.address.give_up()
            taking = asyncio.create_task(taken.take(address, HOST, PORT))
            if moment != "before Take":
                await old.receive_take()
            if moment == "after Released":
                old.address.give_up()
                old.connection.send(Released(FINAL))
            old.connection.close()
            # sleep: the address stays bound for a while, however long
            await asyncio.sleep(0.05)
            old.address.give_up()  # the sockets of a process are not closed at once
            assert await taking == (FINAL if moment == "after Released" else SO_FAR)
            assert taken.is_owner


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "it ended"),
        (Refused("engine-0 is being restarted"), "engine-0 is being restarted"),
        (Owned(), "it sent Owned instead of Released"),
        (Released(FINAL), "it does not free its address"),
    ],
)
async def test_without_the_address_the_new_process_fails(
    answer: Message | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the connection alone is no permission: the old process may continue."""
    async with offered() as (old, taken):
        with OwnerAddress() as address:
            taking = asyncio.create_task(taken.take(address, HOST, PORT))
            await old.receive_take()
            monkeypatch.setattr(taking_over, "TIMEOUT_S", 0.1)  # for the address
            if answer is None:
                old.connection.close()
            else:
                old.connection.send(answer)
            with pytest.raises(TakeOverFailed, match=f"process 123 has not handed over: {reason}"):
                await taking
            assert (taken.is_owner, address.is_held) == (False, False)


async def test_a_process_that_hangs_is_not_taken_over_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with offered() as (old, taken):
        monkeypatch.setattr(taking_over, "TIMEOUT_S", 0.1)
        with OwnerAddress() as address:
            taking = asyncio.create_task(taken.take(address, HOST, PORT))
            await old.receive_take()
            with pytest.raises(TakeOverFailed, match=r"it did not answer within 0\.1 s"):
                await taking


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Refused("engine-0 is being restarted"), "engine-0 is being restarted"),
        (Offer(VERSION + 1, 123), "process 123 hands over in version 2, this one"),
        (Take(), "it sent Take instead of Offer"),
    ],
)
async def test_what_is_no_offer_is_explained(message: Message, reason: str) -> None:
    old = OldProcess()
    offering = asyncio.create_task(old.offer(message))
    with pytest.raises(TakeOverFailed, match=f"serves port 7 does not hand over: {reason}"):
        await asyncio.to_thread(TakeOver.begin, HOST, PORT)
    await offering
    old.connection.close()
    old.address.give_up()
