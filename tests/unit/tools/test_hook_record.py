"""The register checked against the recorded vLLM releases, and the page generated from both.

After a change of the register, take the records again: `vllm_hooks/record.py` has the command.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from vllm_hooks.page import render_page
from vllm_hooks.record import load_records, main, render_record

from paceline.runtime.engine.compat.hook import HookFacts
from paceline.runtime.engine.compat.register import REGISTER

FOLDER = Path(__file__).parents[3] / "tools" / "vllm_hooks" / "records"
PROJECT = Path(__file__).parents[3]
RECORDS = {record.version: record for record in load_records(FOLDER)}


def test_the_releases_are_recorded_oldest_first() -> None:
    """All by one Python version; otherwise their fingerprints are not comparable."""
    assert list(RECORDS) == ["0.26.0", "0.32.0", "0.33.0"]
    assert len({record.python for record in RECORDS.values()}) == 1


@pytest.mark.parametrize(
    ("version", "unfit"),
    [
        (
            "0.26.0",
            {
                "drafting_config",
                "mtp_modules",
                "request_attributes",
                "v2_captured_graphs",
                "v2_ngram_class",
                "v2_draft_model_proposal",
                "v2_draft_model_passes",
                "v2_ngram_proposal",
                "v2_worker_reads_length",
                "dispatched_expand",
                "dispatched_rejection",
                "worker_order",
                "kernels_read_late",
                "platform_worker_hook",
                "trimmed_budget",
            },
        ),
        ("0.32.0", set()),
        ("0.33.0", set()),
    ],
)
def test_the_register_fits_each_release_except_for_known_misfits(
    version: str, unfit: set[str]
) -> None:
    """A new misfit means that a part of Paceline no longer works with that release."""
    verdicts = RECORDS[version].verdicts()
    assert {name for name, verdict in verdicts.items() if verdict != "ok"} == unfit


def test_a_changed_target_requires_new_records() -> None:
    """Otherwise the register would be checked against facts about another target."""
    record = RECORDS["0.32.0"]
    moved = replace(record, targets={**record.targets, "schedule": "vllm.old:schedule"})
    with pytest.raises(
        ValueError, match=r"other targets for schedule; record it again: PYTHONPATH=tools python -m"
    ):
        moved.verdicts()


def test_a_record_is_unchanged_by_writing_and_reading(tmp_path: Path) -> None:
    """Also one with a missing target."""
    record = RECORDS["0.26.0"]
    missing = {name for name, facts in record.facts.items() if facts.kind == "missing"}
    assert "platform_worker_hook" in missing
    (tmp_path / "vllm-0.26.0.json").write_text(render_record(record))
    assert load_records(tmp_path) == [record]


def test_the_command_prints_misfits_and_writes_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tree with only a version has no hook."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "_version.py").write_text("__version__ = version = '0.99.0'\n")
    main(["--into", str(tmp_path), str(tmp_path)])
    printed = capsys.readouterr().out
    assert printed.startswith(f"vllm 0.99.0: 0 of {len(REGISTER)} hooks fit\n")
    [record] = load_records(tmp_path)
    assert record.facts["schedule"] == HookFacts(
        "missing", why_missing="no module vllm.v1.core.sched.scheduler"
    )


def test_the_page_is_up_to_date() -> None:
    """After a change: `python -m vllm_hooks.page`, whose module docstring has the command.

    Generating the page also fails for a release without notes.
    """
    assert (PROJECT / "docs" / "vllm-hooks.md").read_text() == render_page(list(RECORDS.values()))
