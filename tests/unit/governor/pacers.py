"""Pacers that have seen steps of known times."""

from __future__ import annotations

from paceline.runtime.governor.prefill_pacing import PrefillPacer

DECODE_S = 0.020
TOKEN_S = 0.0005


def pacer_after_decodes(objective_s: float, *, ratio: float = 0.0) -> PrefillPacer:
    """Has seen decode steps of 20 ms, which take most of what its margin starts with."""
    pacer = PrefillPacer(objective_s, ratio=ratio)
    for _ in range(20):
        pacer.observe(DECODE_S, 0, is_decoding=True)
    return pacer


def ready(objective_s: float, *, ratio: float = 0.0) -> PrefillPacer:
    """Has seen prefills of 0.5 ms a token beside them, too."""
    pacer = pacer_after_decodes(objective_s, ratio=ratio)
    for _ in range(20):
        pacer.observe(DECODE_S + 50 * TOKEN_S, 50, is_decoding=True)
        pacer.observe(DECODE_S, 0, is_decoding=True)
    return pacer


def room(objective_s: float, margin: float, token_s: float) -> int:
    return int((objective_s / margin - DECODE_S) / token_s)


def late(pacer: PrefillPacer, num_steps: int, duration_s: float) -> None:
    """Steps with prompts for the margin alone; nothing is learned from them."""
    for _ in range(num_steps):
        pacer._adapt_margin(duration_s, 100)
