"""Give a server the setting of an arm before each block of that arm, and set it back at the end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping

import aiohttp
from yarl import URL

from paceline.foundation.load.config import BenchError
from paceline.foundation.servers.governor.switch import (
    ChangedByOther,
    GovernorSwitch,
    SettingRefused,
    SwitchUnavailable,
    switchable_governor,
)
from paceline.workbench.bench.compare.arm_settings import parse_setting
from paceline.workbench.bench.compare.contrasts import Arm


class ArmSwitch:
    """The governors of a server, and the setting of each arm."""

    def __init__(self, switch: GovernorSwitch, settings: Mapping[Arm, str]) -> None:
        self._switch = switch
        self._settings = settings
        self._changes = {arm: parse_setting(text) for arm, text in settings.items()}
        self._num_steps: int | None = None

    async def begin(self) -> None:
        """Find out whether the server accepts both settings. Raises as `apply` does."""
        self._refuse_on_that_is_off()
        for arm in self._changes:
            await self.apply(arm)
        self._num_steps = await self._switch.num_steps()

    async def apply(self, arm: Arm) -> None:
        """Set all governors for the arm. Raises BenchError, or SwitchUnavailable."""
        try:
            await self._switch.apply(self._changes[arm])
        except SettingRefused as refusal:
            raise BenchError(
                f"--settings: {arm.upper()} is {self._settings[arm]!r}, which the server refuses: "
                f"{refusal}"
            ) from refusal

    def governors(self, arm: Arm) -> dict[str, dict[str, object]]:
        """What the arm's setting is on each replica."""
        return {
            name: found.after(self._changes[arm]).change(has_ceiling=True)
            for name, found in self._switch.found.items()
        }

    def notes(self) -> Iterator[str]:
        """What a reader of the report must know of the replicas."""
        for name, reason in self._switch.left_out.items():
            yield f"{name} was not switched, so what it answers is alike in both arms: {reason}"

    async def check_same_server(self, server: str) -> None:
        """Raise BenchError if no governor made a step while `server` answered requests."""
        if self._num_steps is not None and await self._switch.num_steps() == self._num_steps:
            raise BenchError(
                f"the governors made no step while {server} answered requests: they are those of "
                "another server. --admin-url must name the admin port of this one"
            )

    def _refuse_on_that_is_off(self) -> None:
        """Raise BenchError if an arm is `on` and the server was found off."""
        off = [name for name, found in self._switch.found.items() if found.is_off]
        for arm, change in self._changes.items():
            if off and not change:
                raise BenchError(
                    f"--settings: {arm.upper()} is 'on', the setting of the server now, and that "
                    f"is off on {', '.join(off)}; name one, such as policy=goodput"
                )


@contextlib.asynccontextmanager
async def switchable_arms(
    session: aiohttp.ClientSession,
    admin: URL,
    admin_key: str | None,
    model: str,
    settings: Mapping[Arm, str],
) -> AsyncIterator[ArmSwitch]:
    """A switch between the settings of the arms, on all replicas of the model.

    What was set returns when the context ends: `switchable_governor` has the details. Raises
    BenchError in place of SwitchUnavailable. Both settings have been accepted when it is entered.
    """
    try:
        async with switchable_governor(session, admin, admin_key, model) as switch:
            arms = ArmSwitch(switch, settings)
            await arms.begin()
            yield arms
    except ChangedByOther as change:
        raise BenchError(f"the comparison is void: {change}") from change
    except SwitchUnavailable as failure:
        raise BenchError(
            f"the settings cannot be switched: {failure}. --admin-url must name the admin port of "
            "this paceline serve, and --admin-key its key, if it needs one"
        ) from failure
