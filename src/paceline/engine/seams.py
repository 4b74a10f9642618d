"""Which places of vLLM Paceline relies on, and whether the installed vLLM still has them so.

Every place is one entry of `seam_register`: checked when the scheduler starts, and in the tests
against the installed vLLM. On a mismatch the part that needs the seam steps aside, loudly, and
vLLM serves on as if Paceline were not there.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from paceline.engine.seam import Seam, SeamFacts, is_judged_by_body, judge_seam
from paceline.engine.seam_register import REGISTER

_WORKER_PARTS = (
    "generator_repair",
    "resting_draft",
    "plain_sampling",
    "hindsight",
    "first_token",
    "v2_draft_length",
    "worker",
)


def check_seam(seam: Seam) -> str:
    """ "ok", or in words how the installed vLLM differs. Imports the target; never raises."""
    return judge_seam(seam, find_installed(seam))


def find_installed(seam: Seam) -> SeamFacts:
    """What the installed vLLM has where `seam` points. Imports the target; never raises."""
    module_name, _, path = seam.target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for attribute in path.split("."):
            found = getattr(found, attribute)
        # A replaced function carries the original: check what vLLM ships, not our own.
        found = inspect.unwrap(found)
    except (ImportError, AttributeError) as error:
        return SeamFacts("missing", why_missing=str(error))
    if inspect.isclass(found):
        return SeamFacts("fields", tuple(inspect.get_annotations(found)))
    if is_judged_by_body(seam):
        return SeamFacts("mentions", found.__code__.co_names)
    return SeamFacts("parameters", tuple(inspect.signature(found).parameters))


def check_seams(*parts: str) -> dict[str, str]:
    """Every seam's name with "ok" or what does not fit; of some parts only, where named.

    Naming parts also spares the imports of the others' targets. Without names: all parts but
    those that only workers load.
    """
    return {
        seam.name: check_seam(seam)
        for seam in REGISTER
        if (seam.part in parts if parts else seam.part not in _WORKER_PARTS)
    }


def unfit_for(part: str, found: dict[str, str]) -> str:
    """What keeps `part` from working, in words; empty when every seam it needs fits."""
    needed = [seam.name for seam in REGISTER if seam.part == part]
    return "; ".join(f"{name}: {found[name]}" for name in needed if found[name] != "ok")
