"""Say why there is no verdict, for exceptions that no code expects."""

from __future__ import annotations

import tempfile
import traceback

import paceline

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""Parts of torch's messages, for GPUs and CPUs."""


def describe_failure(error: Exception) -> str:
    """What happened and what to do; the traceback is in a file that the text names."""
    if isinstance(error, MemoryError) or any(one in str(error) for one in _OUT_OF_MEMORY):
        return (
            f"memory ran out: {error}. Each model is loaded alone, the baseline in float32; use "
            "--device cpu, a lower --max-tokens or a machine with more memory"
        )
    with tempfile.NamedTemporaryFile(
        "w", prefix="paceline-quality-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        traceback.print_exception(error, file=file)
    return (
        f"the comparison ended with an unexpected {type(error).__name__}: {error}. This says "
        f"nothing about the candidates. Please report it to the developers of Paceline "
        f"{paceline.__version__} with the command and the file {file.name}, which has the traceback"
    )
