"""The requests of the evaluation harness's session, which the test scores too."""

from __future__ import annotations

PAIRS = [
    (f"Question {number}: {'and ' * (number % 7)}what is {number} + {number}? Answer:", answer)
    for number in range(60)
    for answer in (f" {2 * number}", f" {2 * number + 1}", " I do not know é")[: 2 + number % 2]
]
"""Contexts and their continuations, of different lengths: multiple-choice questions."""
ROLLING = "A text that is scored as a whole, in windows."
PROMPTS = [f"Count to {number}:" + " please" * (number % 3) for number in range(150)]
"""Each is answered."""
NUM_TOKENS = 6
"""Of each answer."""
END_TOKEN = 0
"""What the harness puts before a text that has no context."""
MAX_LENGTH = 40
"""Of a window, in tokens."""
