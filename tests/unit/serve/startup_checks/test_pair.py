"""Token ids of a draft model and its target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.foundation.compatibility.vocabularies import VocabularyFit
from paceline.foundation.models.model_folder import PairFacts
from paceline.runtime.serve.startup_checks.checks.pair import check_pair
from paceline.runtime.serve.startup_checks.engine_launch import EngineLaunch
from paceline.runtime.serve.startup_checks.facts import StartupFacts
from paceline.runtime.serve.startup_checks.values import CannotJudge, Found, Verdict
from unit.serve.startup_checks.machines import CPU, SAME_TOKENS

OTHER_IDS = VocabularyFit(False, 3900, 4000)


def drafting(pair: PairFacts | None, *, is_mapped: bool = False) -> StartupFacts:
    config = {"method": "draft_model", "model": "/models/draft"}
    mapped = {"use_heterogeneous_vocab": True} if is_mapped else {}
    return replace(CPU, launch=EngineLaunch("/models/target", {**config, **mapped}), pair=pair)


def found(result: Found | None) -> Found:
    assert result is not None
    return result


def test_the_same_tokens_pass() -> None:
    assert found(check_pair(drafting(SAME_TOKENS))).verdict is Verdict.PASSED


def test_other_drafters_have_no_tokens_of_their_own() -> None:
    assert check_pair(CPU) is None
    ngram = EngineLaunch("/models/target", {"method": "ngram"})
    assert check_pair(replace(CPU, launch=ngram)) is None


def test_another_number_of_tokens_needs_a_mapping() -> None:
    pair = PairFacts((152_064, 151_936), VocabularyFit(True, 151_665, 151_665))
    result = found(check_pair(drafting(pair)))
    assert result.verdict is Verdict.REFUSED
    for part in ("152,064", "/models/draft 151,936", "use_heterogeneous_vocab"):
        assert part in result.text
    assert found(check_pair(drafting(pair, is_mapped=True))).verdict is Verdict.PASSED


def test_as_many_tokens_with_other_ids_are_hardly_ever_accepted() -> None:
    """vLLM compares the numbers only, and serves."""
    result = found(check_pair(drafting(PairFacts((4096, 4096), OTHER_IDS))))
    assert (result.verdict, "3,900 of the target's 4,000" in result.text) == (Verdict.WARNING, True)
    mapped = drafting(PairFacts((4096, 4096), OTHER_IDS), is_mapped=True)
    assert found(check_pair(mapped)).verdict is Verdict.PASSED


def test_missing_special_tokens_are_named() -> None:
    names = ("<|im_start|>", "<|im_end|>", "<|tool|>", "<|a|>", "<|b|>")
    pair = PairFacts((4096, 4096), OTHER_IDS, names)
    result = found(check_pair(drafting(pair, is_mapped=True)))
    assert result.verdict is Verdict.WARNING
    assert "<|im_start|>, <|im_end|>, <|tool|>, <|a|> and 1 more" in result.text


def test_a_mapping_of_too_few_tokens_is_a_warning() -> None:
    pair = PairFacts((4096, 4096), VocabularyFit(False, 99, 4000))
    result = found(check_pair(drafting(pair, is_mapped=True)))
    assert (result.verdict, "99 of the target's" in result.text) == (Verdict.WARNING, True)


def test_models_that_are_not_on_this_disk_are_not_judged() -> None:
    with pytest.raises(CannotJudge, match="are folders with"):
        check_pair(drafting(None))
