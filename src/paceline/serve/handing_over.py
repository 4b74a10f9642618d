"""The old side of a hand-over: offer the ports and the engines to a new process, once."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence

import msgspec

from paceline.serve.handover import (
    MAX_MESSAGE_BYTES,
    Offer,
    Released,
    Taken,
    address_of,
    is_own_user,
)

logger = logging.getLogger(__name__)

_RETRY_S = 1.0
"""Chosen empirically."""

MakeOffer = Callable[[], tuple[Offer, Sequence[int]]]
"""Returns the offer, and the file descriptors that belong to it."""
Release = Callable[[Mapping[str, int]], Sequence[str]]
"""Takes the adopted engines, stops accepting, and returns the names of the engines released."""


async def hand_over(host: str, port: int, make_offer: MakeOffer, release: Release) -> None:
    """Return when a new process has taken over. Waits for it as long as necessary."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        try:
            listener.bind(address_of(host, port))
            listener.listen(4)
        except OSError as error:
            logger.warning("no other `paceline serve` can take over from this one: %s", error)
            await asyncio.get_running_loop().create_future()
        listener.setblocking(False)
        while True:
            try:
                connected, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError as error:  # no descriptors left, perhaps for a while
                logger.warning("a hand-over could not begin: %s", error)
                await asyncio.sleep(_RETRY_S)
                continue
            with connected:
                taken = await _offer_to(connected, make_offer)
                if taken is not None:
                    listener.close()  # the new process listens at the same address
                    await _release_to(connected, release, taken)
                    return


async def _offer_to(connected: socket.socket, make_offer: MakeOffer) -> Taken | None:
    """What the process at the other end has taken; None if it has not taken over."""
    connected.setblocking(False)
    try:
        if not is_own_user(connected):
            logger.warning("a process of another user asked to take over; it was refused")
            return None
        offer, descriptors = make_offer()
        socket.send_fds(connected, [msgspec.json.encode(offer)], list(descriptors))
        answer = await asyncio.get_running_loop().sock_recv(connected, MAX_MESSAGE_BYTES)
        if answer:
            return msgspec.json.decode(answer, type=Taken)
        logger.warning("the process that was to take over has ended; this one serves on")
    except (OSError, msgspec.MsgspecError) as error:
        logger.warning("a hand-over failed (%s); this process serves on", error)
    return None


async def _release_to(connected: socket.socket, release: Release, taken: Taken) -> None:
    released = Released(tuple(release(taken.engines)))
    try:
        await asyncio.get_running_loop().sock_sendall(connected, msgspec.json.encode(released))
    except OSError as error:  # the new process serves, or has just ended
        logger.warning("the process that took over did not wait for the answer: %s", error)
