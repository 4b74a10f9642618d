"""`import paceline` offers the public names and imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

import paceline


def test_importing_paceline_imports_no_part() -> None:
    script = (
        "import sys, paceline\n"
        "heavy = ('numpy', 'pydantic', 'torch', 'vllm', 'aiohttp', 'paceline.')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_public_surface_needs_no_engine() -> None:
    """Every public name, one after the other: neither vLLM nor torch is imported."""
    script = (
        "import sys, paceline\n"
        "for name in paceline.__all__: getattr(paceline, name)\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('torch', 'vllm')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists() -> None:
    assert {name for name in paceline.__all__ if not hasattr(paceline, name)} == set()
    assert set(paceline.__all__) <= set(dir(paceline))
    with pytest.raises(AttributeError, match="has no attribute 'create_polcy'"):
        _ = paceline.create_polcy
