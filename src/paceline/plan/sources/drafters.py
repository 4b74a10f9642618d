"""Choose the drafter that a plan counts with, and what to assume of its acceptance."""

from __future__ import annotations

from paceline.capacity.speculation import Acceptance
from paceline.compatibility.draft_pairs import find_draft_pair
from paceline.named_models import draft_of, drafter_folder
from paceline.plan.sources.catalogue import Catalogue
from paceline.plan.sources.model_source import find_model
from paceline.plan.values import AcceptanceRange, Drafter, PlanError

_MODEL_RANGE = AcceptanceRange(Acceptance(0.45), Acceptance(0.68), Acceptance(0.82))
"""Assumed, without a measurement: a draft of the target's family on mixed traffic, from free prose
to code."""
_LOOKUP_RANGE = AcceptanceRange(
    Acceptance(0.30, 0.15), Acceptance(0.55, 0.35), Acceptance(0.80, 0.70)
)
"""Assumed, without a measurement: free prose, mixed traffic, and answers that copy from their
prompt."""
_NONE = AcceptanceRange(Acceptance(0.0), Acceptance(0.0), Acceptance(0.0))
_ASSUMED = "assumed; measure it with `paceline bench run` and set --acceptance"


def choose_drafter(
    draft: str,
    target: str,
    catalogue: Catalogue,
    *,
    dtype: str | None,
    acceptance: float | None,
) -> Drafter:
    """Return the drafter for `target`; `draft` is auto, ngram, suffix, none, a folder or a name.

    `acceptance` replaces the assumed probability that a draft token is accepted.
    """
    draft = drafter_folder(draft)
    if draft == "none":
        return no_drafter()
    if draft in ("ngram", "suffix"):
        why = f"{draft}: as given"
        return Drafter(
            "ngram" if draft == "ngram" else "suffix",
            None,
            *_acceptance_first(_LOOKUP_RANGE, acceptance, why),
        )
    if draft != "auto":
        model = find_model(draft, catalogue, dtype=dtype)
        return Drafter("model", model, *_acceptance_first(_MODEL_RANGE, acceptance, "as given"))
    own = draft_of(target)
    if own is not None:
        return choose_drafter(own, target, catalogue, dtype=dtype, acceptance=acceptance)
    pair = find_draft_pair(target)
    if pair is not None and catalogue.model_config(pair.draft) is not None:
        model = find_model(pair.draft, catalogue, dtype=dtype)
        return Drafter("model", model, *_acceptance_first(_MODEL_RANGE, acceptance, pair.why))
    why = f"n-gram lookup: the table of draft models has none for {target}"
    return Drafter("ngram", None, *_acceptance_first(_LOOKUP_RANGE, acceptance, why))


def no_drafter() -> Drafter:
    """Return the drafter of an engine without speculation."""
    return Drafter("none", None, _NONE, "no speculation: as given", "no drafts")


def _acceptance_first(
    assumed: AcceptanceRange, given: float | None, why: str
) -> tuple[AcceptanceRange, str, str]:
    if given is None:
        return assumed, why, _ASSUMED
    try:
        return assumed.at(given), why, "given with --acceptance"
    except ValueError as error:
        raise PlanError(f"{error}. Set it with --acceptance") from None
