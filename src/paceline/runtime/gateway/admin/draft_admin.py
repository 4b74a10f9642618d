"""The request to /admin/draft that begins a swap: POST {"draft", "allow_outage"}.

Translates JSON to calls of `DraftSwaps`, and what it raises to a 4xx.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paceline.runtime.gateway.admin.change_gate import ChangeGate
from paceline.runtime.gateway.admin.draft_swaps import DraftSwaps, SwapConflict
from paceline.runtime.gateway.admin.engine_drafts import DraftUnfit
from paceline.runtime.gateway.http.errors import Problem, Refusal, invalid, refuse_unknown_fields
from paceline.runtime.gateway.settings.names import is_name

DRAFT_FIELDS = ("draft", "allow_outage")
_MAX_DRAFT_CHARS = 4096
"""Of a path on Linux."""


async def begin_swap(
    swaps: DraftSwaps,
    gate: ChangeGate,
    request: Mapping[str, Any],
    on_checked: Callable[[Mapping[str, Any]], None],
) -> dict[str, Any]:
    """Check the draft and begin to swap it in; returns the state as GET shows it.

    `on_checked` is called with the request once it has passed its check.
    """
    refuse_unknown_fields(request, DRAFT_FIELDS)
    draft, allow_outage = request.get("draft"), request.get("allow_outage", False)
    if not isinstance(draft, str) or not is_name(draft, _MAX_DRAFT_CHARS):
        raise invalid(
            "draft must be a folder of this machine, a Hugging Face name, ngram, suffix, none or "
            "auto.",
            "draft",
        )
    if not isinstance(allow_outage, bool):
        raise invalid("allow_outage must be true or false.", "allow_outage")
    try:
        checked = await swaps.check(draft)
        on_checked(request)
        with gate.change():
            swaps.begin(checked, allow_outage=allow_outage)
    except DraftUnfit as unfit:
        raise invalid(f"{unfit}. Nothing was changed.", "draft", code="draft_refused") from None
    except SwapConflict as conflict:
        raise Refusal(Problem(409, str(conflict), "draft_not_swappable")) from None
    return swaps.describe()


def refuse_restart_during_swap(swaps: DraftSwaps) -> None:
    """Raise `Refusal` (409) while a swap is under way: it restarts the engines itself, and takes
    one that ends for a failure of the new draft."""
    if swaps.is_under_way:
        raise Refusal(
            Problem(
                409,
                "A draft is being swapped, which restarts the engines one by one; GET /admin/draft "
                "shows it.",
                "replica_not_restartable",
                "name",
            )
        )
