"""Note the order in which an engine handles the tokens of a step and makes its drafts."""

from __future__ import annotations

from typing import Any

_happened: list[str] = []


def note_order() -> None:
    """From now on `take_order` has `tokens` for each step that the scheduler has the results of,
    and `drafts` for each step that drafts."""
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.spec_decode.draft_model import DraftModelProposer

    for owner, name, what in (
        (Scheduler, "update_from_output", "tokens"),
        (DraftModelProposer, "propose", "drafts"),
    ):
        _note(owner, name, what)


def take_order() -> list[str]:
    """What has happened since the last call."""
    taken, _happened[:] = list(_happened), []
    return taken


def _note(owner: Any, name: str, what: str) -> None:
    stock = getattr(owner, name)

    def noting(*arguments: Any, **named: Any) -> Any:
        _happened.append(what)
        return stock(*arguments, **named)

    setattr(owner, name, noting)
