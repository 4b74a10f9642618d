"""Checks of limits of this process and this machine: descriptors and free disk."""

from __future__ import annotations

from paceline.runtime.gateway.own_limits import explain_shortage
from paceline.runtime.serve.startup_checks.facts import StartupFacts
from paceline.runtime.serve.startup_checks.sizes import size_text
from paceline.runtime.serve.startup_checks.values import CannotJudge, Found, passed, warning


def check_descriptors(facts: StartupFacts) -> Found:
    """Every request takes two descriptors of the gateway."""
    if facts.descriptors is None:
        raise CannotJudge("the limit of this process is not known")
    limit, needed = facts.descriptors
    shortage = explain_shortage(limit, needed)
    if shortage is not None:
        return warning(shortage)
    return passed(f"{limit:,} files and connections allowed, at most {needed:,} needed")


def check_disk(facts: StartupFacts) -> Found:
    """Logs, temporary files and downloaded models need room."""
    if not facts.folders:
        raise CannotJudge("the free space of no folder is known")
    short = [folder for folder in facts.folders if folder.free_bytes < folder.needed_bytes]
    if not short:
        return passed(
            "; ".join(f"{size_text(one.free_bytes)} free in {one.path}" for one in facts.folders)
        )
    return warning(
        "; ".join(
            f"{size_text(one.free_bytes)} are free in {one.path} for {one.holds}, which need "
            f"{size_text(one.needed_bytes)}: free some, or move it ({one.setting})"
            for one in short
        )
    )
