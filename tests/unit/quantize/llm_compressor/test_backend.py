"""The subprocess is driven by JSON lines; an environment is complete when its marker says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from paceline.foundation.quantized.errors import QuantizeError
from paceline.workbench.quantize.llm_compressor import environment
from paceline.workbench.quantize.llm_compressor.backend import run_script


def interpreter(folder: Path, *lines: str, code: int = 0) -> Path:
    """A program in place of the environment's Python, which answers with these lines."""
    file = folder / "python"
    echo = "".join(f"print({line!r})\n" for line in lines)
    source = (
        f"#!{sys.executable}\nimport sys\n{echo}print('why', file=sys.stderr)\nsys.exit({code})\n"
    )
    file.write_text(source)
    file.chmod(0o755)
    return file


def test_steps_are_reported_and_versions_returned(tmp_path: Path) -> None:
    steps: list[str] = []
    python = interpreter(tmp_path, '{"step": "loading"}', '{"versions": {"torch": "2"}}')
    versions = run_script(python, {"model": "m"}, lambda what, done, total: steps.append(what))
    assert versions == {"torch": "2"}
    assert steps == ["llm-compressor: loading"]


def test_a_failure_has_the_error_and_the_last_lines(tmp_path: Path) -> None:
    python = interpreter(tmp_path, '{"error": "ValueError: bad"}', code=1)
    with pytest.raises(QuantizeError, match=r"ValueError: bad[\s\S]*why"):
        run_script(python, {}, lambda *_: None)


def test_a_program_that_ends_without_an_answer_has_failed(tmp_path: Path) -> None:
    with pytest.raises(QuantizeError, match="exit code 3"):
        run_script(interpreter(tmp_path, code=3), {}, lambda *_: None)


def test_an_environment_with_other_requirements_is_not_complete(tmp_path: Path) -> None:
    assert not environment.is_complete(tmp_path)
    marker = tmp_path / "paceline-environment.json"
    marker.write_text('{"requirements": "other"}')
    assert not environment.is_complete(tmp_path)
    digest = environment._digest()
    marker.write_text(f'{{"requirements": "{digest}"}}')
    assert environment.is_complete(tmp_path)
    environment.create(tmp_path, lambda step: pytest.fail(step))  # nothing is done
    assert environment.default_folder({"XDG_CACHE_HOME": "/c"}) == Path(
        f"/c/paceline/llm-compressor-{digest[:12]}"
    )


PIP_WITHOUT_CPU_BUILDS = f"""#!{sys.executable}
import sys
with open(__file__ + ".log", "a") as log:
    log.write(" ".join(sys.argv[5:]) + "\\n")
is_found = "--index-url" in sys.argv or not sys.argv[-1].endswith("+cpu")
print("No matching distribution found")
sys.exit(0 if is_found else 1)
"""


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        (
            "2.13.0+cpu",
            [
                "--no-deps torch==2.13.0+cpu",
                "--no-deps torch==2.13.0+cpu --index-url https://download.pytorch.org/whl/cpu",
                "--requirement",
            ],
        ),
        ("2.13.0", ["--requirement"]),
    ],
)
def test_the_environment_has_the_cpu_build_of_torch_where_paceline_has(
    installed: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment.importlib.metadata, "version", lambda name: installed)
    python = environment.python_of(tmp_path)
    python.parent.mkdir()
    python.write_text(PIP_WITHOUT_CPU_BUILDS)
    python.chmod(0o755)
    environment.create(tmp_path, lambda step: None)
    commands = Path(f"{python}.log").read_text().splitlines()
    assert [line.partition(" /")[0] for line in commands] == expected
    assert environment.is_complete(tmp_path)


def test_a_failed_installation_shows_its_last_lines() -> None:
    with pytest.raises(QuantizeError, match="no such package"):
        environment.run_shown(
            [sys.executable, "-c", "print('no such package'); raise SystemExit(1)"],
            lambda _: None,
        )
