"""The table of draft models: lookups, and the integrity of its data."""

from __future__ import annotations

import pytest

from paceline.foundation.compatibility.draft_pairs import draft_pairs, find_draft_pair


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct"),
        ("Qwen/Qwen2.5-72B", "Qwen/Qwen2.5-1.5B"),
        ("/models/Qwen2.5-72B-Instruct/", "Qwen/Qwen2.5-1.5B-Instruct"),
        ("meta-llama/llama-3.3-70b-instruct", "meta-llama/Llama-3.2-1B-Instruct"),
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B"),
    ],
)
def test_a_known_target_has_a_draft(target: str, draft: str) -> None:
    """By its Hugging Face name or a folder of that name, in any case of letters."""
    pair = find_draft_pair(target)
    assert pair is not None
    assert pair.draft == draft


def test_an_unknown_target_has_none() -> None:
    assert find_draft_pair("someone/else") is None


def test_every_pair_has_a_reason_and_occurs_once() -> None:
    pairs = draft_pairs()
    assert all(pair.why for pair in pairs)
    assert len({pair.target for pair in pairs}) == len(pairs)
