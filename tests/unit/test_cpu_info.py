"""What Linux lists of the processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.foundation.machine.cpu_info import read_cpu_flags, read_cpu_model

X86 = (
    "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Xeon: 8481C\nflags\t\t: fpu avx512_bf16\n\n"
    "processor\t: 1\nmodel name\t: other\nflags\t\t: fpu\n"
)
ARM = "processor\t: 0\nFeatures\t: asimd bf16\nCPU part\t: 0xd4f\n"


@pytest.mark.parametrize(
    ("text", "flags", "model"),
    [
        (X86, {"fpu", "avx512_bf16"}, "Xeon: 8481C"),
        (ARM, {"asimd", "bf16"}, ""),
        ("flags\t\t:\nmodel name:\n", frozenset(), ""),
        ("", frozenset(), ""),
    ],
)
def test_the_first_processor_of_x86_and_arm(
    tmp_path: Path, text: str, flags: set[str], model: str
) -> None:
    (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")
    assert read_cpu_flags(tmp_path) == flags
    assert read_cpu_model(tmp_path) == model


def test_bytes_that_are_no_text_and_a_missing_file(tmp_path: Path) -> None:
    assert (read_cpu_flags(tmp_path), read_cpu_model(tmp_path)) == (frozenset(), "")
    (tmp_path / "cpuinfo").write_bytes(b"vendor\t: \xff\nflags\t: fpu\n")
    assert read_cpu_flags(tmp_path) == {"fpu"}
