"""The known defects are those that the page of hooks describes, in releases that were read."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.foundation.compatibility.vllm_defects import CPU_DEFECTS, CpuDefect, cpu_defects
from paceline.foundation.compatibility.vllm_releases import SUPPORTED

PAGE = (Path(__file__).parents[3] / "docs" / "vllm-hooks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("defect", CPU_DEFECTS, ids=lambda one: one.evidence[-12:])
def test_a_defect_is_known_from_the_hooks(defect: CpuDefect) -> None:
    assert defect.evidence in PAGE
    assert all(f"### {release}." in PAGE for release in defect.releases)
    assert set(defect.corrected) <= set(SUPPORTED)


def test_sampled_speculation_is_wrong_on_cpus_unless_paceline_corrects_it() -> None:
    def issues(release: str, *, speculates: bool = True, has_plugin: bool = False) -> list[str]:
        found = cpu_defects(release, speculates=speculates, has_plugin=has_plugin)
        return [one.evidence for one in found if one.is_common]

    issue = ["https://github.com/vllm-project/vllm/issues/55005"]
    assert issues("0.32.0") == issues("0.33.1") == issues("0.26.0") == issue
    assert issues("0.32.0", has_plugin=True) == []
    assert issues("0.26.0", has_plugin=True) == issue  # its hooks do not fit
    assert issues("0.32.0", speculates=False) == []
    assert issues("0.40.0") == []
