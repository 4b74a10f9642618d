"""`measure_drafts`: what `--probe` measures after its load.

The gain of drafts is measured on a server whose governor can be switched. The governor is set back
whatever happens. On a plain vLLM server the gain is computed from the times of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import aiohttp

from paceline.foundation.servers.governor.switch import (
    ChangedByOther,
    SwitchUnavailable,
    switchable_governor,
)
from paceline.operations.doctor.observing.server import ObservedServer
from paceline.operations.doctor.probing.alternation import NotMeasured, compare_settings
from paceline.operations.doctor.probing.context_end import infer_gain_of_drafts
from paceline.operations.doctor.probing.load import ProbeLoad
from paceline.operations.doctor.probing.settings import ProbeSettings
from paceline.operations.doctor.probing.streams import StreamCount, count_streams
from paceline.operations.doctor.readings.observation import Reading
from paceline.operations.doctor.readings.probe_result import MeasuredGain, ProbeResult


async def measure_drafts(
    session: aiohttp.ClientSession,
    server: ObservedServer,
    load: ProbeLoad,
    settings: ProbeSettings,
    readings: Sequence[Reading],
    admin_key: str | None,
) -> ProbeResult:
    """Read some streams, and compare drafting with not drafting.

    `readings` were made under the load. Raises RestoreFailed if a governor keeps a setting of the
    comparison.
    """
    streams = await count_streams(session, settings.data_url, settings.api_key, load.model)
    is_disturbed = False
    gain: MeasuredGain | None = None
    reason: str | None = None
    try:
        if server.kind == "paceline":
            async with switchable_governor(session, server.url, admin_key, load.model) as switch:
                gain = await compare_settings(
                    load, switch.turn_on, switch.turn_off, settings.concurrency, settings.seconds
                )
        else:
            gain = await infer_gain_of_drafts(session, server, load, settings, readings)
    except (SwitchUnavailable, NotMeasured) as failure:
        gain, reason = None, str(failure)
        is_disturbed = isinstance(failure, ChangedByOther)
    return replace(
        render_result(load, streams, gain, reason),
        is_disturbed=is_disturbed,
        concurrency=settings.concurrency,
    )


def render_result(
    load: ProbeLoad, streams: list[StreamCount], gain: MeasuredGain | None, reason: str | None
) -> ProbeResult:
    """The result from what was sent and read."""
    counted = [
        (one.request, one.streamed, one.counted)
        for one in streams
        if one.streamed is not None and one.counted is not None
    ]
    return ProbeResult(
        num_requests=load.num_requests + len(streams),
        num_failed=load.num_failed,
        model=load.model,
        workload=load.workload,
        temperature=load.temperature,
        gain=gain,
        gain_reason=reason,
        excess_tokens=tuple(one for one in counted if one[1] > one[2]),
        num_streams_counted=len(counted),
    )
