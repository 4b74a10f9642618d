"""The engine of a recording as a machine of the policy simulator."""

from __future__ import annotations

from paceline.foundation.planning.values import PlanError
from paceline.foundation.recording.records import Header
from paceline.testing.policy_simulator.machines.cost import CostFunction
from paceline.testing.policy_simulator.machines.machine import Drafter, Machine

_SEARCHES = ("ngram", "suffix")
_WITHOUT_KV_CACHE = ("medusa", "mlp_speculator")


def drafter_kind(header: Header) -> Drafter:
    """The kind of the recorded drafter, as the policy simulator names it."""
    if header.method == "ngram_gpu" or (header.method in _SEARCHES and header.is_async):
        return "ngram_gpu"
    if header.method in _SEARCHES:
        return "ngram"
    if header.method in _WITHOUT_KV_CACHE:
        return "stateless"
    return "rests" if header.drafter_rests else "keeps_up"


def make_machine(
    drafter: Header, engine: Header, cost: CostFunction, max_draft_length: int
) -> Machine:
    """The engine's limits with the drafter of one recording, its own or another one."""
    lengths = engine.allowed_lengths
    if lengths is not None:
        lengths = tuple(length for length in lengths if length <= max_draft_length)
    try:
        return Machine(
            cost=cost,
            max_draft_length=max_draft_length,
            max_num_seqs=engine.max_num_seqs,
            token_budget=engine.token_budget,
            drafter=drafter_kind(drafter),
            is_async=drafter.is_async,
            prefill_chunk_tokens=engine.prefill_chunk_tokens,
            captured_lengths=lengths,
        )
    except ValueError as error:
        raise PlanError(f"the recording's engine cannot be replayed: {error}") from None
