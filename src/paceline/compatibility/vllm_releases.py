"""Which vLLM releases Paceline supports, and which fit by their source.

docs/vllm-hooks.md has the details of each release that was read.
"""

from __future__ import annotations

from typing import Final, Literal

TESTED: Final = ("0.32",)
"""Major and minor version: the tests run these releases."""
FITTING: Final = ("0.33",)
"""Every hook fits the source of these releases; none was run."""


def judge_release(release: str) -> Literal["tested", "fitting", "unknown"]:
    """Say how far Paceline knows a version of vLLM such as "0.32.0".

    >>> judge_release("0.32.1+cpu")
    'tested'
    """
    short = ".".join(release.split(".")[:2])
    if short in TESTED:
        return "tested"
    return "fitting" if short in FITTING else "unknown"
