"""Poison must get its error: a status of a server, or an error event after a right beginning."""

from __future__ import annotations

import pytest

from chaos.mixed_load.poison import BROKEN, REFUSED, errors_in
from chaos.transcript import Transcript
from paceline.testing.mock_vllm import encode_chat, expected_answer

ERROR = {"message": "failed"}
TEXT = expected_answer(encode_chat([("user", f"{BROKEN} 7")], add_generation_prompt=True), 100).text


@pytest.mark.parametrize(
    ("word", "transcript", "is_right"),
    [
        (REFUSED, Transcript(status=500, error=ERROR), True),
        (REFUSED, Transcript(status=503, error=ERROR), True),
        (REFUSED, Transcript(status=500), False),
        (REFUSED, Transcript(status=400, error=ERROR), False),
        (REFUSED, Transcript(status=200, error=ERROR), False),
        (REFUSED, Transcript(status=200, text="x", finish_reasons=["stop"], is_done=True), False),
        (REFUSED, Transcript(read_error="broken"), False),
        (BROKEN, Transcript(status=500, error=ERROR), True),
        (BROKEN, Transcript(status=200, text=TEXT[:5], error=ERROR), True),
        (BROKEN, Transcript(status=200, text="x" + TEXT[:5], error=ERROR), False),
        (BROKEN, Transcript(status=200, text=TEXT[:5]), False),
        (BROKEN, Transcript(status=200, text=TEXT, finish_reasons=["stop"], is_done=True), False),
    ],
)
def test_poison_gets_its_error(word: str, transcript: Transcript, is_right: bool) -> None:
    assert bool(errors_in(word, 7, transcript)) is not is_right
