"""Check the token ids of a draft model against those of its target.

Drafts travel as token ids. Where the ids differ, vLLM can map them by the text of the tokens
(`use_heterogeneous_vocab`), which Paceline sets for a `--draft` that needs it.
"""

from __future__ import annotations

from paceline.foundation.compatibility.vocabularies import MIN_SHARED_TOKENS
from paceline.runtime.serve.startup_checks.facts import StartupFacts
from paceline.runtime.serve.startup_checks.values import (
    CannotJudge,
    Found,
    passed,
    refused,
    warning,
)

_SHOWN = 4
_USE_MAPPING = (
    'Set "use_heterogeneous_vocab": true in --speculative-config, or give the draft as --draft'
)


def check_pair(facts: StartupFacts) -> Found | None:
    """None without a draft model."""
    launch = facts.launch
    if launch is None or launch.draft_model is None:
        return None
    if facts.pair is None:
        raise CannotJudge(
            f"{launch.draft_model} and its target are compared when both are folders with a "
            "tokenizer.json"
        )
    target_size, draft_size = facts.pair.num_embedded
    fit = facts.pair.vocabularies
    sizes = f"the target embeds {target_size:,} tokens and the draft {launch.draft_model} "
    sizes += f"{draft_size:,}"
    shared = f"{fit.num_shared:,} of the target's {fit.num_target:,} tokens"
    if launch.drafting.get("use_heterogeneous_vocab"):
        return _judge_mapped(facts, shared)
    if target_size != draft_size:
        return refused(f"{sizes}, and vLLM refuses such a pair without a mapping. {_USE_MAPPING}")
    if not fit.has_same_ids:
        return warning(
            f"the draft {launch.draft_model} has as many tokens as the target, but other ids for "
            f"them (they share the text of {shared}), so nearly no draft will be accepted. "
            f"{_USE_MAPPING}"
        )
    return passed(f"target and draft have the same {fit.num_target:,} tokens with the same ids")


def _judge_mapped(facts: StartupFacts, shared: str) -> Found:
    assert facts.launch is not None
    assert facts.pair is not None
    draft, missing = facts.launch.draft_model, facts.pair.missing_special_tokens
    if not facts.pair.vocabularies.is_usable:
        return warning(
            f"the draft {draft} has {shared}, fewer than {MIN_SHARED_TOKENS}: nearly no draft will "
            "be accepted. Use a draft of the target's family, or --draft ngram"
        )
    if missing:
        names = ", ".join(missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        return warning(
            f"the draft {draft} lacks special tokens of the target ({names}{more}): it reads its "
            "unknown token in their place and never drafts them, so fewer drafts of chats are "
            "accepted. Use a draft of the target's family, or compare with --draft ngram"
        )
    return passed(f"token ids are mapped by text: the draft has {shared}")
