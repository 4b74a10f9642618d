"""One worker as the head sees it: how is it started, told what it must know, and ended?

From the start of the process to its end. What follows when it ends is for `pool`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from paceline.gateway.settings import FleetSettings, GatewaySettings
from paceline.gateway.workers.channel import Channel, ChannelBroken
from paceline.gateway.workers.messages import (
    Ask,
    Counts,
    Elsewhere,
    Hung,
    Part,
    Replicas,
    Report,
    Serving,
    Setup,
    Stop,
    ToHead,
    ToWorker,
    Unfit,
)
from paceline.gateway.workers.totals import Totals

logger = logging.getLogger(__name__)

_PROGRAM = Path(__file__).with_name("__main__.py")
_START_TIMEOUT_S = 60.0
"""Chosen by hand: a worker serves after a second, on a busy machine after ten."""
_ASK_PERIOD_S = 5.0
"""A worker is asked for its counts so often, whether or not somebody wants them: what it counted
after the last time is lost when it dies. Chosen by hand."""
_MAX_UNANSWERED = 6
"""A worker that left so many questions unanswered, for half a minute, hangs. Chosen by hand."""
EXIT_S = 2.0
"""A worker that ends at once is gone within this time, or is killed. Chosen by hand."""


class WorkerFailed(Exception):
    """A worker cannot serve; the message says why, as far as that is known."""


class WorkerProcess:
    """A running process. It lives in a session of its own, so that Ctrl-C reaches the head alone,
    and ends by itself when the head does."""

    def __init__(
        self, place: int, process: Process, channel: Channel[ToHead, ToWorker], totals: Totals
    ) -> None:
        self.place = place
        self.pid = process.pid
        self.has_served = False
        self.unfit_because: str | None = None
        """Why it cannot serve, as it says itself or as can be seen."""
        self._process = process
        self._channel = channel
        self._totals = totals
        self._answered = asyncio.Event()
        self._is_over = False
        """It will not answer any more."""
        self._num_unanswered = 0
        self._started_at_s = self._asked_at_s = time.monotonic()
        self._replicas_told = 0
        self._elsewhere_told = Elsewhere()

    @classmethod
    async def start(
        cls, place: int, settings: GatewaySettings, listener: socket.socket, totals: Totals
    ) -> WorkerProcess:
        """Start a process that is going to serve on this socket. May raise OSError."""
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                # -P: what lies in the working folder is not imported
                *(sys.executable, "-P", str(_PROGRAM)),
                *(str(theirs.fileno()), str(listener.fileno())),
                pass_fds=(theirs.fileno(), listener.fileno()),
                stdin=DEVNULL,
                stdout=DEVNULL,  # ours is read by programs; its log goes where ours goes
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        channel: Channel[ToHead, ToWorker] = await Channel.over(ours, ToHead)
        # Of the replicas it learns by the list, of which ones are in the file is not its business.
        channel.send(Setup(replace(settings, fleet=FleetSettings())))
        return cls(place, process, channel, totals)

    async def run(self, on_hung: Callable[[str], None]) -> int:
        """Until the process has ended; returns its exit code, negative for a signal.

        Killed where this is cancelled.
        """
        try:
            await self._listen(on_hung)
            async with asyncio.timeout(EXIT_S):
                await self._process.wait()
        except ChannelBroken as error:
            logger.error("gateway worker %d said what is no message: %s", self.place, error)
        except TimeoutError:
            logger.error("gateway worker %d did not end by itself", self.place)
        finally:
            self.kill()
            self._channel.close()
        return await self._process.wait()

    def ask_often(self) -> None:
        """Ask for its counts now and then, and end it where it hangs. To be called often."""
        now_s = time.monotonic()
        if not self.has_served:  # it may have much to import, and then hears nothing
            if now_s - self._started_at_s > _START_TIMEOUT_S and self.unfit_because is None:
                self.unfit_because = f"it did not serve within {_START_TIMEOUT_S:g} s"
                self.kill()
        elif now_s - self._asked_at_s > _ASK_PERIOD_S:
            self._asked_at_s = now_s
            if self._num_unanswered == _MAX_UNANSWERED:
                logger.error("gateway worker %d hangs and is killed", self.place)
                self.kill()
            self._num_unanswered += 1
            self._channel.send(Ask())

    def tell_replicas(self, replicas: Replicas) -> None:
        """Unless it knows them, or has yet to take what it was told before."""
        if replicas.number > self._replicas_told and not self._channel.is_backed_up:
            self._replicas_told = replicas.number
            self._channel.send(replicas)

    def tell_elsewhere(self, in_flight: dict[str, int], parts: dict[str, Part]) -> int | None:
        """The same; returns the number under which it is told, None where it is not."""
        last = self._elsewhere_told
        is_news = last.number == 0 or (in_flight, parts) != (last.in_flight, last.parts)
        if not is_news or self._channel.is_backed_up:
            return None
        self._elsewhere_told = Elsewhere(last.number + 1, in_flight, parts)
        self._channel.send(self._elsewhere_told)
        return self._elsewhere_told.number

    def stop(self, *, at_once: bool = False) -> None:
        """Have it take no new connections, end what it has, and exit."""
        self._channel.send(Stop(at_once))

    def kill(self) -> None:
        """End it at once, if it still runs."""
        if self._process.returncode is None:
            self._process.kill()

    async def ask(self) -> None:
        """Have its counts brought up to date. Does not return while it does not answer, but when
        it is gone."""
        if not self._is_over:
            self._answered.clear()
            self._channel.send(Ask())
            await self._answered.wait()

    async def _listen(self, on_hung: Callable[[str], None]) -> None:
        try:
            while (message := await self._channel.receive()) is not None:
                match message:
                    case Report():
                        self._totals.reported(self.place, message)
                    case Counts():
                        self._totals.counted(self.place, message)
                        self._num_unanswered = 0
                        self._answered.set()
                    case Hung():
                        on_hung(message.replica)
                    case Serving():
                        self.has_served = True
                    case Unfit():
                        self.unfit_because = message.why
        finally:
            self._is_over = True
            self._answered.set()  # with what was told last


def explain_exit(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
