"""The number format that a processor gets."""

from __future__ import annotations

import pytest

from paceline.foundation.compatibility.cpu_formats import choose_cpu_dtype


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        (set(), "float32"),
        ({"avx2", "avx512f", "avx512_vnni"}, "float32"),
        ({"avx512_bf16"}, "bfloat16"),
        ({"amx_bf16", "amx_tile"}, "bfloat16"),
        ({"asimd", "bf16"}, "bfloat16"),
    ],
)
def test_bfloat16_needs_native_instructions(flags: set[str], dtype: str) -> None:
    chosen, reason = choose_cpu_dtype(flags)
    assert chosen == dtype
    assert reason.startswith(f"{dtype}: ")
