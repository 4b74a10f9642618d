"""Do variables for the engine core pass through the API server without touching it?"""

from __future__ import annotations

from paceline.engine.launch.environment import for_engine_core, unwrap_engine_core_variables


def test_variables_get_their_names_only_when_passed_on() -> None:
    environ = {"KEPT": "1", **for_engine_core({"KMP_AFFINITY": "none"})}
    assert "KMP_AFFINITY" not in environ
    unwrap_engine_core_variables(environ)
    assert environ["KMP_AFFINITY"] == "none"
    assert environ["KEPT"] == "1"


def test_nothing_to_pass_on_changes_nothing() -> None:
    environ = {"KEPT": "1"}
    unwrap_engine_core_variables(environ)
    assert environ == {"KEPT": "1"}
