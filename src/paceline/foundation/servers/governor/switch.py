"""Change the governors of a Paceline through its admin port, such as to off, and set them back.

What is set on every replica is read before, and set again on exit, whatever happens in between.
Only replicas whose setting was read are changed. A policy or a ceiling that another program or an
operator set meanwhile is left in place.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import Any

import aiohttp
import click
from yarl import URL

from paceline.foundation.command_line.printable import printable_lines
from paceline.foundation.servers.governor.page import GovernorPage
from paceline.foundation.servers.governor.settings import (
    ChangedByOther,
    RestoreFailed,
    Setting,
    SettingRefused,
    SwitchUnavailable,
    restoring_change,
    serves_model,
    setting_of,
    setting_to_restore,
)

__all__ = [
    "ChangedByOther",
    "GovernorSwitch",
    "RestoreFailed",
    "Setting",
    "SettingRefused",
    "SwitchUnavailable",
    "restoring_change",
    "serves_model",
    "switchable_governor",
]

_RESTORE_WITHIN_S = 90.0
"""The engine of a replica that restarts meanwhile takes a minute or more to answer again."""
_BETWEEN_ATTEMPTS_S = 1.0


class GovernorSwitch:
    """The governors of one admin port."""

    def __init__(self, page: GovernorPage, report: Callable[[str], None]) -> None:
        self._page = page
        self._report = report
        self._originals: dict[str, Setting] = {}
        self._possible: dict[str, set[Setting]] = {}
        """What a replica can have if nobody else changed it: two settings after a failed change."""
        self.left_out: dict[str, str] = {}
        """Replicas of the model that are not switched, and why; known after `read`."""

    @property
    def found(self) -> Mapping[str, Setting]:
        """What was set on the replicas that are switched."""
        return self._originals

    async def read(self, model: str | None) -> None:
        """Note what is set on the replicas of the model; None for all.

        Raises SwitchUnavailable if there is nothing to switch, or if not all can be restored.
        """
        entries = await self._page.entries()
        for name, state in (await self._page.states()).items():
            entry = entries.get(name, {})
            if not serves_model(entry, model):
                continue
            if isinstance(state, str):
                if entry.get("has_governor") and entry.get("state") == "ready":
                    raise SwitchUnavailable(f"the governor of {name} cannot be read: {state}")
                self.left_out[name] = state
                continue
            setting = setting_of(state)
            if setting is None:
                raise SwitchUnavailable(
                    f"{name} does not report what was set on its governor (policy_parameters), so "
                    "it could not be restored: it runs an older Paceline"
                )
            self._originals[name] = setting
        if not self._originals:
            reasons = "".join(f"; {name}: {reason}" for name, reason in self.left_out.items())
            raise SwitchUnavailable(
                f"{self._page.url} reports no governor"
                f"{'' if model is None else f' of {model}'}: the server does not draft{reasons}"
            )
        self._possible = {name: {one} for name, one in self._originals.items()}

    async def turn_off(self) -> None:
        """Hold all governors at draft length 0."""
        await self.apply({"draft_length": 0})

    async def turn_on(self) -> None:
        """Set every governor as it was. Raises SwitchUnavailable at the first that fails."""
        await self.apply({})

    async def apply(
        self, change: Mapping[str, object], replicas: Iterable[str] | None = None
    ) -> None:
        """Set these governors, by default all, as they were but for the change.

        Raises SwitchUnavailable, SettingRefused among them, and ChangedByOther before anything is
        sent.
        """
        await self._require_unchanged()
        for name in self._originals if replicas is None else replicas:
            if name not in self._originals:
                raise SwitchUnavailable(f"{name} had no governor that could be read")
            await self._set(name, self._originals[name].after(change))

    async def num_steps(self) -> int | None:
        """The steps of these governors' engines so far; None if one reports none."""
        states = await self._page.states()
        counts = [
            None if isinstance(state := states.get(name, ""), str) else state.get("steps_total")
            for name in self._originals
        ]
        known = [count for count in counts if type(count) is int]
        return sum(known) if len(known) == len(counts) else None

    def keep(self) -> None:
        """Leave the governors as they are now: nothing is set back any more."""
        self._possible = {name: {one} for name, one in self._originals.items()}

    async def restore(self) -> None:
        """Set all that this switch has changed as it was, in attempts until a deadline.

        Raises RestoreFailed if one could not be set, else ChangedByOther if one was left to the
        setting of another.
        """
        failed = {
            name: "" for name, one in self._originals.items() if self._possible[name] != {one}
        }
        others: set[str] = set()
        until_s = time.monotonic() + _RESTORE_WITHIN_S
        is_announced = False
        while failed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(
                    asyncio.get_running_loop().time() + max(0.0, until_s - time.monotonic())
                ):
                    await self._restore_once(failed, others)
            if not failed:
                break
            if time.monotonic() >= until_s:
                raise RestoreFailed(self._report_failure(failed))
            if not is_announced:
                self._report(
                    f"Restoring the governors of {', '.join(failed)}, for at most "
                    f"{_RESTORE_WITHIN_S:g} s: {next(iter(failed.values()))}"
                )
                is_announced = True
            await asyncio.sleep(_BETWEEN_ATTEMPTS_S)
        if others:
            raise ChangedByOther(_other_text(others))

    async def _restore_once(self, failed: dict[str, str], others: set[str]) -> None:
        """Try every replica of `failed`; those restored, or set by another, are taken out."""
        try:
            states = await self._page.states()
        except SwitchUnavailable as failure:
            failed.update(dict.fromkeys(failed, str(failure)))
            return

        async def try_one(name: str) -> None:
            state = states.get(name, "the admin port no longer lists it")
            if isinstance(state, str):
                failed[name] = state
                return
            original = self._originals[name]
            now = setting_of(state) or original
            setting = setting_to_restore(now, original, self._possible[name])
            if setting != original:
                others.add(name)
            if setting == now != original:
                del failed[name]
                return
            # A restarted engine may have the original already; sent again, the gateway knows it.
            try:
                await self._set(name, setting)
            except SwitchUnavailable as failure:
                failed[name] = str(failure)
            else:
                del failed[name]

        await asyncio.gather(*map(try_one, tuple(failed)))

    async def _set(self, name: str, setting: Setting) -> None:
        possible = self._possible[name]
        has_ceiling = any(one.ceiling != setting.ceiling for one in possible)
        possible.add(setting)
        await self._page.send(setting.change(has_ceiling=has_ceiling), name)
        self._possible[name] = {setting}

    async def _require_unchanged(self) -> None:
        states = await self._page.states()
        others = {
            name
            for name, possible in self._possible.items()
            if not isinstance(state := states.get(name, ""), str)
            and setting_of(state) not in possible
        }
        if others:
            raise ChangedByOther(_other_text(others))

    def _report_failure(self, failed: Mapping[str, str]) -> str:
        lines = [
            f"The governors of {len(failed)} replicas could not be restored within "
            f"{_RESTORE_WITHIN_S:g} s; they keep the setting of this measurement until you send:"
        ]
        for name, reason in failed.items():
            original = self._originals[name]
            has_ceiling = any(one.ceiling != original.ceiling for one in self._possible[name])
            command = self._page.command(original.change(has_ceiling=has_ceiling), name)
            lines.append(f"  {command}   # {name}: {reason or 'no answer'}")
        text = "\n".join(lines)
        self._report(text)
        return text


def _other_text(names: set[str]) -> str:
    return (
        f"the governor of {', '.join(sorted(names))} was set by another program or an operator "
        "meanwhile; that setting was left in place"
    )


def report_to_stderr(text: str) -> None:
    """Show it at once: what comes after may be cut off."""
    click.echo(printable_lines(text), err=True)


@contextlib.asynccontextmanager
async def switchable_governor(
    session: aiohttp.ClientSession,
    admin: URL,
    key: str | None,
    model: str | None = None,
    report: Callable[[str], None] = report_to_stderr,
) -> AsyncIterator[GovernorSwitch]:
    """A switch for the replicas of a model, back as it was when the context ends.

    That also holds after cancellation, which waits for it. Raises SwitchUnavailable if there is
    nothing to switch, ChangedByOther if another changed a governor, and RestoreFailed if one keeps
    a setting of this program. After cancellation RestoreFailed is the cause of the CancelledError.
    """
    switch = GovernorSwitch(GovernorPage(session, admin, key), report)
    await switch.read(model)
    try:
        yield switch
    except asyncio.CancelledError as cancellation:
        try:
            await _uncancelled(switch.restore())
        except RestoreFailed as failure:
            raise cancellation from failure
        except ChangedByOther as left:
            report(str(left))
        raise
    except BaseException:
        await _uncancelled(switch.restore())
        raise
    else:
        await _uncancelled(switch.restore())


async def _uncancelled(restoring: Coroutine[Any, Any, None]) -> None:
    """Run to the end; a cancellation meanwhile is raised after it."""
    task = asyncio.ensure_future(restoring)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation from task.exception()
    task.result()
