"""Which vLLM releases Paceline supports.

The only place that names them: other modules, and the tests of `pyproject.toml`, the lock file and
the pages, derive from it. docs/vllm-hooks.md has the details of each release that was read.
"""

from __future__ import annotations

from typing import Final, Literal

INSTALLED: Final = "0.32.0"
"""The release in the lock file, which the tests run, on a CPU."""


def short_release(release: str) -> str:
    """Return major and minor version.

    >>> short_release("0.32.1+cpu")
    '0.32'
    """
    return ".".join(release.split(".")[:2])


TESTED: Final = (short_release(INSTALLED),)
"""Major and minor version: the tests run these releases."""
FITTING: Final = ("0.33",)
"""Every hook fits the source of these releases. None was run: they have builds for GPUs only."""
SUPPORTED: Final = (*TESTED, *FITTING)
"""What `pip install 'paceline[cuda]'` takes."""


def judge_release(release: str) -> Literal["tested", "fitting", "unknown"]:
    """Say how far Paceline knows a version of vLLM such as "0.32.0".

    >>> judge_release("0.32.1+cpu")
    'tested'
    """
    short = short_release(release)
    if short in TESTED:
        return "tested"
    return "fitting" if short in FITTING else "unknown"
