"""A folder exists under its name only when it is complete."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from paceline.foundation.quantized.errors import QuantizeError, WrongUsage
from paceline.workbench.quantize.output_folder import check_free, open_output


def test_work_is_invisible_until_it_is_finished(tmp_path: Path) -> None:
    final = tmp_path / "deep" / "out"
    with open_output(final, {"scheme": "awq"}) as output:
        (output.path / "a").write_text("1")
        assert not final.exists()
        output.finish()
    assert [path.name for path in final.iterdir()] == ["a"]
    assert [path.name for path in final.parent.iterdir()] == ["out"]


def test_an_interrupted_run_continues_with_the_same_inputs_only(tmp_path: Path) -> None:
    final = tmp_path / "out"
    with contextlib.suppress(KeyboardInterrupt), open_output(final, {"scheme": "awq"}) as output:
        (output.path / "a").write_text("1")
        raise KeyboardInterrupt
    assert not final.exists()
    with open_output(final, {"scheme": "awq"}) as output:
        assert output.continues
        assert (output.path / "a").read_text() == "1"
    with open_output(final, {"scheme": "gptq"}) as output:
        assert not output.continues
        assert not (output.path / "a").exists()


def test_a_second_run_at_the_same_time_is_refused(tmp_path: Path) -> None:
    final = tmp_path / "out"
    with (
        open_output(final, {}),
        pytest.raises(QuantizeError, match="another run is writing"),
        open_output(final, {}),
    ):
        pass


def test_an_existing_folder_is_kept(tmp_path: Path) -> None:
    final = tmp_path / "out"
    final.mkdir()
    with open_output(final, {}) as output:  # empty: it may be replaced
        (output.path / "a").write_text("1")
        output.finish()
    with pytest.raises(QuantizeError, match=r"--out is .* which exists"), open_output(final, {}):
        pass
    assert (final / "a").read_text() == "1"


def test_a_folder_that_cannot_be_replaced_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is renamed at the end, when hours of work are done."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    for name in ("link", "dangling"):
        with pytest.raises(WrongUsage, match="a symbolic link; name the folder"):
            check_free(tmp_path / name)
    monkeypatch.chdir(tmp_path / "real")
    with pytest.raises(WrongUsage, match=r"--out is \., the current folder .* such as model"):
        check_free(Path())
    monkeypatch.chdir(tmp_path)
    check_free(tmp_path / "real")
    monkeypatch.setattr(Path, "is_mount", lambda self: True)
    with pytest.raises(WrongUsage, match="a mount point, which cannot be replaced"):
        check_free(tmp_path / "real")


def test_a_run_whose_folder_is_taken_at_the_end_keeps_its_work(tmp_path: Path) -> None:
    final = tmp_path / "out"
    with open_output(final, {}) as output:
        (output.path / "a").write_text("1")
        final.mkdir()
        (final / "b").write_text("of another run")
        with pytest.raises(OSError, match="not empty"):
            output.finish()
    (final / "b").unlink()
    with open_output(final, {}) as output:
        assert output.continues
        output.finish()
    assert (final / "a").read_text() == "1"
