"""No message is lost, whatever the time limits."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator

import pytest

from paceline.runtime.serve.handover.connection import Connection
from paceline.runtime.serve.handover.messages import Changes, HandOverBroken, Owned, Released, Take


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ends
    for end in ends:
        end.close()


async def test_a_message_that_arrives_with_the_time_limit_is_not_lost(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    """The event loop finds both at the same moment."""
    here, there = map(Connection, sockets)
    receiving = asyncio.create_task(here.receive(0.05))
    await asyncio.sleep(0)
    there.send(Owned())
    # sleep: the loop is busy when the limit passes; any longer time is as good
    time.sleep(0.1)  # noqa: ASYNC251
    try:
        message = await receiving
    except TimeoutError:
        message = await here.receive(60)
    assert isinstance(message, Owned)


async def test_messages_after_a_time_limit_arrive_in_order(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    here, there = map(Connection, sockets)
    with pytest.raises(TimeoutError):
        await here.receive(0.01)
    there.send(Take({"a": 1}))
    there.send(Owned())
    assert await here.receive(60) == Take({"a": 1})
    assert await here.receive(60) == Owned()
    there.close()
    with pytest.raises(HandOverBroken, match="it ended"):
        await here.receive(60)
    with pytest.raises(HandOverBroken, match="it could not be reached"):
        here.send(Owned())


async def test_the_other_end_sees_the_end_during_a_read(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    here, there = map(Connection, sockets)
    with pytest.raises(TimeoutError):
        await here.receive(0.01)
    here.close()
    with pytest.raises(HandOverBroken, match="it ended"):
        await there.receive(60)


async def test_what_is_no_message_is_refused(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    sockets[1].send(b'{"type": "other"}')
    with pytest.raises(HandOverBroken, match="it sent an invalid message"):
        await Connection(sockets[0]).receive(60)


def changes_of(num_bytes: int) -> Released:
    return Released(Changes(fleet={"added": [{"name": "x" * num_bytes}]}))


@pytest.mark.parametrize("num_bytes", [1, 65_000, 70_000, 140_000, 250_000, 8_000_000])
async def test_a_message_of_any_length_arrives_whole_and_in_order(
    sockets: tuple[socket.socket, socket.socket], num_bytes: int
) -> None:
    num_open = len(os.listdir("/proc/self/fd"))
    here, there = map(Connection, sockets)
    there.send(changes_of(num_bytes))
    there.send(Owned())
    assert await here.receive(60) == changes_of(num_bytes)
    assert await here.receive(60) == Owned()
    assert len(os.listdir("/proc/self/fd")) == num_open


async def test_a_message_that_is_too_long_is_not_sent(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    here, there = map(Connection, sockets)
    with pytest.raises(HandOverBroken, match="remove replicas"):
        there.send(changes_of(17 * 1024 * 1024))
    there.send(Owned())
    assert await here.receive(60) == Owned()


async def test_descriptors_that_do_not_belong_to_a_message_are_closed(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    num_open = len(os.listdir("/proc/self/fd"))
    here, there = map(Connection, sockets)
    there.send(Owned(), [0])
    assert await here.receive(60) == Owned()
    assert len(os.listdir("/proc/self/fd")) == num_open


async def test_a_message_whose_file_is_missing_is_no_message(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    sockets[1].send(b"in file")
    with pytest.raises(HandOverBroken, match="without its file"):
        await Connection(sockets[0]).receive(60)
