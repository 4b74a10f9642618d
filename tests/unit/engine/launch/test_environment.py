"""The environment variables that only the engine core receives."""

from __future__ import annotations

from paceline.runtime.engine.launch.environment import for_engine_core, unwrap_engine_core_variables


def test_variables_keep_the_prefix_until_they_are_unwrapped() -> None:
    environ = {"KEPT": "1", **for_engine_core({"KMP_AFFINITY": "none"})}
    assert "KMP_AFFINITY" not in environ
    unwrap_engine_core_variables(environ)
    assert environ["KMP_AFFINITY"] == "none"
    assert environ["KEPT"] == "1"


def test_an_environment_without_such_variables_is_unchanged() -> None:
    environ = {"KEPT": "1"}
    unwrap_engine_core_variables(environ)
    assert environ == {"KEPT": "1"}
