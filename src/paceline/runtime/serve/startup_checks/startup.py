"""Gather the facts and apply the checks, so that a fault of a check stops no server."""

from __future__ import annotations

import logging
from collections.abc import Collection

from paceline.runtime.engine.launch.hardware import Hardware
from paceline.runtime.serve.plan import ServePlan
from paceline.runtime.serve.startup_checks.checks.registry import judge
from paceline.runtime.serve.startup_checks.reading.gathering import gather_facts
from paceline.runtime.serve.startup_checks.values import CheckResult

logger = logging.getLogger(__name__)


def check_startup(
    plan: ServePlan,
    hardware: Hardware,
    *,
    skipped: Collection[str] = (),
    has_running_engines: bool = False,
) -> list[CheckResult]:
    """Return the results of all checks but those `skipped`; none if they cannot be carried out.

    `has_running_engines`: engines that are taken over hold memory, which is then not judged.
    """
    try:
        facts = gather_facts(plan, hardware, has_running_engines=has_running_engines)
        return judge(facts, skipped)
    except Exception as error:  # noqa: BLE001 - files of any content are read: the server matters
        logger.warning("the start-up checks were not carried out: %r", error)
        return []
