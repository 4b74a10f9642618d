"""The tiny model, its quantized folder and its prompts, made once; one compute thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from paceline.workbench.quantize.run import Machine, QuantizeOptions, run_quantization
from unit.quantize.tiny import make_tiny, write_prompts


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """On a busy machine, threads that wait for one another take most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with random weights; read only."""
    return make_tiny(tmp_path_factory.mktemp("quality") / "tiny")


@pytest.fixture(scope="session")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 12 chat prompts; read only."""
    return write_prompts(tmp_path_factory.mktemp("prompts") / "prompts.jsonl", 12)


@pytest.fixture(scope="session")
def w8a8(tiny: Path) -> Path:
    """The tiny model in INT8; read only."""
    return quantize(tiny, "w8a8", tiny.with_name("w8a8"))


def quantize(model: Path, scheme: str, out: Path) -> Path:
    """Write a quantized folder that needs no calibration."""
    run_quantization(
        QuantizeOptions(
            model=str(model), scheme=scheme, out=out, calibration=None, num_samples=1,
            max_tokens=16, group_size=None, seed=0,
        ),
        Machine("test", 2**40),
        command=["paceline", "quantize"],
        cautions=(),
        on_progress=lambda *_: None,
        on_caution=lambda _: None,
    )  # fmt: skip
    return out
