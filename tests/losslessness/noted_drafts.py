"""Note the tokens that an engine's drafter proposes."""

from __future__ import annotations

from typing import Any

_noted: list[list[list[int]]] = []


def note_drafts() -> None:
    """From now on `take_drafts` has the drafts of each step that drafts."""
    from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer

    propose = SpecDecodeBaseProposer.propose

    def noting(*arguments: Any, **named: Any) -> Any:
        drafts = propose(*arguments, **named)
        if drafts.shape[1]:
            _noted.append(drafts.tolist())
        return drafts

    SpecDecodeBaseProposer.propose = noting


def take_drafts() -> list[list[list[int]]]:
    """The drafts since the last call: of each step, a row per request."""
    taken, _noted[:] = list(_noted), []
    return taken
