"""`vllm serve` with vLLM's Rust front end, which the plugin refuses under `AdaptiveScheduler`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline import demo

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def serve(tmp_path: Path, *arguments: str) -> str:
    """The output of a server whose front end is a program that ends immediately."""
    front_end = tmp_path / "vllm-rs"
    front_end.write_text("#!/bin/sh\necho started the Rust front end\n")
    front_end.chmod(0o755)
    process = subprocess.run(
        [str(Path(sys.executable).parent / "vllm"), "serve", str(demo.target_path()),
         "--uds", str(tmp_path / "engine.sock"), *arguments],
        env={
            **os.environ,
            "VLLM_USE_RUST_FRONTEND": "1",
            "VLLM_RUST_FRONTEND_PATH": str(front_end),
            "VLLM_USE_V2_MODEL_RUNNER": "0",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )  # fmt: skip
    assert process.returncode != 0
    return process.stdout + process.stderr


def test_the_rust_front_end_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    output = serve(tmp_path, "--scheduler-cls", "paceline.engine.AdaptiveScheduler")
    assert "AdaptiveScheduler allows only vLLM's Python front end" in output
    assert "Unset the variable, or remove --scheduler-cls" in output
    assert "started the Rust front end" not in output


def test_without_our_scheduler_vllm_starts_it(tmp_path: Path) -> None:
    assert "started the Rust front end" in serve(tmp_path)
