"""Choose the drafter that a plan proposes, and what is known of its acceptance.

Acceptance depends on the traffic, so it is unknown unless it is given or was measured for this very
pair. An unknown acceptance counts as no gain; the plan then says from which acceptance the drafter
pays.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from paceline.foundation.capacity.speculation import Acceptance
from paceline.foundation.compatibility.draft_pairs import find_draft_pair
from paceline.foundation.named_models import draft_of, drafter_folder
from paceline.foundation.planning.sources.catalogue import Catalogue
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.planning.values import AcceptanceRange, Drafter, PlanError, no_drafter

PUBLISHED = (0.45, 0.68, 0.82)
"""Low, mean and high acceptance that others publish for an 8B draft of a 70B target: what a plan
shows bills for where the acceptance is unknown. It is no figure of any other pair."""
LOOKUP_FRACTION = 0.35
"""Of the steps in which a lookup drafts, assumed where an acceptance is given: without a
measurement, for mixed traffic; 0.15 in free prose, 0.7 where answers copy from their prompt."""
_UNKNOWN = "unknown; measure it with `paceline bench run` and set --acceptance"
_BUNDLED = AcceptanceRange(Acceptance(0.65), Acceptance(0.96), Acceptance(0.97))
"""Of the bundled pair, measured: hard text at temperature 1; predictable text, for which it is
made, in the median and in the best of four repeats. The acceptance per token with which the drafts
of benchmarks/results/speculation-bundled-2026-11-21.json.gz yield their accepted tokens."""
_SMOLLM2 = AcceptanceRange(Acceptance(0.53), Acceptance(0.64), Acceptance(0.64))
"""Of our head for it, measured: at temperature 0.7, and greedy, in
benchmarks/results/drafter-smollm2-2026-11-30.json."""
_SMOLLM2_SOURCE = "measured on this pair, sampled and greedy (docs/how-to/train-a-draft.md)"
_BUNDLED_SOURCE = (
    "measured on this pair with predictable text (hard text: 0.65; docs/experiments/speculation.md)"
)


def choose_drafter(
    draft: str,
    target: str,
    catalogue: Catalogue,
    *,
    dtype: str | None,
    acceptance: float | None,
    quantization: str | None = None,
) -> Drafter:
    """Return the drafter for `target`; `draft` is auto, ngram, suffix, none, a folder or a name.

    `acceptance` is the probability that a draft token is accepted; None where it is not given.
    `quantization` plans for a draft model that is converted to this scheme.
    """
    found = _drafter(draft, target, catalogue, dtype=dtype, quantization=quantization)
    if found.kind == "none":
        return found
    if acceptance is None:
        return _with_measured(found, target)
    fraction = 1.0 if found.model is not None else LOOKUP_FRACTION
    source = "given with --acceptance"
    if found.model is None:
        source += f"; drafts in {fraction:.0%} of the steps are assumed"
    try:
        known = Acceptance(acceptance, fraction)
    except ValueError as error:
        raise PlanError(f"{error}. Set it with --acceptance") from None
    return replace(found, acceptance=AcceptanceRange(known, known, known), acceptance_source=source)


def _drafter(
    draft: str, target: str, catalogue: Catalogue, *, dtype: str | None, quantization: str | None
) -> Drafter:
    draft = drafter_folder(draft)
    if draft in ("none", "ngram", "suffix") and quantization is not None:
        raise PlanError(
            f"--draft-quantization {quantization} is for a draft model, and --draft is {draft}"
        )
    if draft == "none":
        return no_drafter()
    if draft in ("ngram", "suffix"):
        return _lookup(draft, "as given")
    if draft != "auto":
        return _model(draft, catalogue, dtype, quantization, "as given")
    own = draft_of(target)
    if own is not None:
        return _drafter(own, target, catalogue, dtype=dtype, quantization=quantization)
    pair = find_draft_pair(target)
    if pair is not None and catalogue.model_config(pair.draft) is not None:
        return _model(pair.draft, catalogue, dtype, quantization, pair.why)
    if quantization is not None:
        raise PlanError(
            f"--draft-quantization {quantization}: the table has no draft model for {target}; "
            "name one with --draft"
        )
    return _lookup("ngram", f"n-gram lookup: the table of draft models has none for {target}")


def _model(
    name: str, catalogue: Catalogue, dtype: str | None, quantization: str | None, why: str
) -> Drafter:
    model = find_model(name, catalogue, dtype=dtype, quantization=quantization)
    return Drafter("model", model, None, why, _UNKNOWN)


def _lookup(kind: str, why: str) -> Drafter:
    return Drafter("ngram" if kind == "ngram" else "suffix", None, None, why, _UNKNOWN)


def _with_measured(drafter: Drafter, target: str) -> Drafter:
    """The drafter with the measured acceptance, if the pair is one of ours."""
    draft = drafter.model
    if draft is None or draft.converted_to is not None:
        return drafter
    own = draft_of(_folder(target))
    if own is None or _folder(own) != _folder(draft.name):
        return drafter
    if own == drafter_folder("bundled"):
        return replace(drafter, acceptance=_BUNDLED, acceptance_source=_BUNDLED_SOURCE)
    return replace(drafter, acceptance=_SMOLLM2, acceptance_source=_SMOLLM2_SOURCE)


def _folder(name: str) -> str:
    path = Path(name)
    return str((path.parent if path.suffix == ".json" else path).resolve())
