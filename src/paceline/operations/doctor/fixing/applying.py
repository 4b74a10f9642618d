"""Apply a change to the governors of a gateway, measure it, and keep it or roll it back.

Whatever happens, Ctrl-C included, a change that was not found to help is taken back.
"""

from __future__ import annotations

import aiohttp
from yarl import URL

from paceline.foundation.servers.governor.switch import (
    ChangedByOther,
    SwitchUnavailable,
    switchable_governor,
)
from paceline.operations.doctor.fixing.choice import Fix, FixResult, helps
from paceline.operations.doctor.probing.alternation import NotMeasured, compare_settings
from paceline.operations.doctor.probing.load import prepare_load
from paceline.operations.doctor.probing.settings import ProbeSettings

_MIN_ROUNDS = 3


async def try_fix(
    fix: Fix, admin: URL, admin_key: str | None, settings: ProbeSettings
) -> FixResult:
    """Blocks with the change and without it, in turn. Raises BenchError if no load can be sent.

    Raises RestoreFailed if the change could neither be kept nor taken back.
    """
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
    ) as session:
        load = await prepare_load(session, settings)
        try:
            async with switchable_governor(session, admin, admin_key, load.model) as switch:

                async def change() -> None:
                    await switch.apply(fix.change, fix.replicas)

                gain = await compare_settings(
                    load, change, switch.turn_on, settings.concurrency, settings.seconds,
                    min_rounds=_MIN_ROUNDS,
                )  # fmt: skip
                if helps(gain):
                    await change()
                    switch.keep()
                    return FixResult(fix, gain, True, "the interval of the gain is above 1")
                return FixResult(fix, gain, False, "it is not certain that it helps")
        except (SwitchUnavailable, NotMeasured) as failure:
            return FixResult(
                fix, None, False, str(failure), is_disturbed=isinstance(failure, ChangedByOther)
            )
