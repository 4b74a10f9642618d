"""Descriptors and free disk."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.runtime.serve.startup_checks.checks.limits import check_descriptors, check_disk
from paceline.runtime.serve.startup_checks.facts import Folder
from paceline.runtime.serve.startup_checks.values import CannotJudge, Verdict
from unit.serve.startup_checks.machines import CPU, GIB, MIB

LOGS = Folder("/var/log/paceline", "logs", 200 * MIB, 100 * MIB, "engine.log_folder")
WEIGHTS = Folder("/cache", "the weights of a/b", 10 * GIB, 15 * GIB, "HF_HOME")


def test_descriptors_have_to_reach_what_the_settings_allow() -> None:
    assert check_descriptors(replace(CPU, descriptors=(1792, 1792))).verdict is Verdict.PASSED
    result = check_descriptors(replace(CPU, descriptors=(1024, 1792)))
    assert result.verdict is Verdict.WARNING
    for part in ("1024", "1792", "ulimit -n"):
        assert part in result.text
    with pytest.raises(CannotJudge):
        check_descriptors(CPU)


def test_a_folder_with_too_little_room_is_named_with_its_setting() -> None:
    assert check_disk(replace(CPU, folders=(LOGS,))).verdict is Verdict.PASSED
    result = check_disk(replace(CPU, folders=(LOGS, WEIGHTS)))
    assert result.verdict is Verdict.WARNING
    for part in ("10.0 GiB are free in /cache", "the weights of a/b", "15.0 GiB", "HF_HOME"):
        assert part in result.text
    assert "engine.log_folder" not in result.text
    with pytest.raises(CannotJudge):
        check_disk(CPU)
