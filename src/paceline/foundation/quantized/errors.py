"""The errors that end a quantization with one sentence."""

from __future__ import annotations


class QuantizeError(Exception):
    """A model cannot be quantized; the message says why and what is allowed."""


class WrongUsage(QuantizeError):
    """The command asks for something that cannot be; the user has to change it."""
