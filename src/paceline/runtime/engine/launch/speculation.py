"""Choose the drafter of a target and write vLLM's --speculative-config for it.

`--draft auto` looks the target up in `compatibility.draft_pairs`; a target without an entry gets
n-gram prompt lookup, which needs no second model. Under Model Runner V2 that is `ngram_gpu`: the
same class searches as for `ngram`, but asynchronous scheduling stays on. There, the lengths that
shall have CUDA graphs are also named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paceline.foundation.compatibility.draft_pairs import find_draft_pair
from paceline.foundation.compatibility.speculative_config import (
    draft_model_config,
    eagle3_config,
    ngram_config,
    suffix_config,
    with_named_lengths,
)
from paceline.foundation.models.eagle_head import check_eagle3_head, is_eagle3_head
from paceline.foundation.models.model_folder import (
    ModelUnfit,
    PairFacts,
    check_model,
    check_pair,
)
from paceline.runtime.engine.compat.drafters import missing_for_drafter
from paceline.runtime.engine.launch.hardware import Hardware

_DRAFT_NAMES = ("auto", "ngram", "suffix", "none")


@dataclass(frozen=True, slots=True)
class Drafter:
    """The drafter chosen for one target."""

    speculative_config: Mapping[str, Any] | None
    """Value of vLLM's --speculative-config; None serves without speculation."""
    why: str
    pair: PairFacts | None = None
    """How the tokens of target and draft model compare; None where no folders were compared."""


def uses_model_runner_v2(hardware: Hardware, environ: Mapping[str, str]) -> bool:
    """Return whether vLLM runs its Model Runner V2 on this machine, if the drafter allows it."""
    asked = environ.get("VLLM_USE_V2_MODEL_RUNNER", "").strip().lower()
    return hardware.device == "gpu" and asked not in ("0", "false")


def choose_drafter(
    draft: str,
    target: str,
    draft_length_max: int,
    *,
    chosen_by: str = "as configured",
    uses_v2_runner: bool = False,
    separate_tenants: bool = False,
) -> Drafter:
    """Return the drafter for `target`; `draft` is auto, ngram, suffix, none, a folder or a name.

    `chosen_by` says why `draft` is used, if it is not auto. `uses_v2_runner`: vLLM runs its Model
    Runner V2 (`uses_model_runner_v2`). `separate_tenants`: no request is drafted for from the
    answers of others. Raises `ModelUnfit` when a draft model does not fit the target or a package
    is missing. Reads the folders of local models; Hugging Face names are left for vLLM to check.
    """
    if draft == "none":
        return Drafter(None, f"no speculation: {chosen_by}")
    if draft == "auto":
        pair = find_draft_pair(target)
        if pair is not None:
            return _draft_model(pair.draft, draft_length_max, pair.has_same_vocab_size, pair.why)
        why = f"n-gram: the table of draft models has none for {target}"
        return _ngram(draft_length_max, why, on_gpu=uses_v2_runner)
    if draft == "ngram":
        return _ngram(draft_length_max, f"n-gram: {chosen_by}", on_gpu=uses_v2_runner)
    if draft == "suffix":
        missing = missing_for_drafter("suffix")
        if missing is not None:
            raise ModelUnfit(missing)
        return _suffix(draft_length_max, separate_tenants, chosen_by)
    try:
        check_model(draft, _DRAFT_NAMES)
        if is_eagle3_head(Path(draft)):
            return _eagle3_head(draft, target, draft_length_max, chosen_by)
    except ModelUnfit as unfit:
        raise ModelUnfit(f"the draft model (--draft, engine.draft) is unusable: {unfit}") from None
    has_same_ids, why, facts = True, chosen_by, None
    if Path(draft).is_dir() and Path(target).is_dir():
        fit = check_pair(Path(target), Path(draft))
        has_same_ids, facts = fit.has_same_ids, fit.facts
        why = f"{why}; {fit.note}" if fit.note else why
    elif (pair := find_draft_pair(target)) is not None and pair.draft == draft:
        has_same_ids = pair.has_same_vocab_size
    return replace(_draft_model(draft, draft_length_max, has_same_ids, why), pair=facts)


def name_lengths(
    drafter: Drafter, *, configured: Collection[int] = (), max_num_seqs: int | None = None
) -> Drafter:
    """Return the drafter with the draft lengths named that Model Runner V2 captures graphs for.

    `configured` are lengths that the settings name, `max_num_seqs` is vLLM's if the user sets it.
    Returns `drafter` where there is no speculation, or vLLM runs Model Runner V1 for it: V1 gives
    up its full graphs under such a table.
    """
    config = drafter.speculative_config
    if config is None:
        return drafter
    named = with_named_lengths(config, configured=configured, max_num_seqs=max_num_seqs)
    table = named.get("num_speculative_tokens_per_batch_size")
    if table is None:
        return drafter
    lengths = ", ".join(str(length) for _, _, length in reversed(table))
    return replace(
        drafter,
        speculative_config=named,
        why=f"{drafter.why}; CUDA graphs for draft lengths {lengths}",
    )


def _ngram(draft_length_max: int, why: str, *, on_gpu: bool) -> Drafter:
    return Drafter(ngram_config(draft_length_max, on_gpu=on_gpu), why)


def _suffix(draft_length_max: int, separate_tenants: bool, chosen_by: str) -> Drafter:
    config = suffix_config(draft_length_max)
    if not separate_tenants:
        return Drafter(config, f"suffix decoding: {chosen_by}")
    return Drafter(
        {**config, "suffix_decoding_max_cached_requests": 0},
        f"suffix decoding: {chosen_by}; it drafts from a request's own text only, because API keys "
        "are set",
    )


def _eagle3_head(head: str, target: str, draft_length_max: int, chosen_by: str) -> Drafter:
    if Path(target).is_dir():
        check_eagle3_head(Path(head), Path(target))
    return Drafter(eagle3_config(head, draft_length_max), f"EAGLE-3 head {head}: {chosen_by}")


def _draft_model(draft: str, draft_length_max: int, has_same_ids: bool, why: str) -> Drafter:
    config = draft_model_config(draft, draft_length_max, has_same_ids=has_same_ids)
    return Drafter(config, f"draft model {draft}: {why}")
