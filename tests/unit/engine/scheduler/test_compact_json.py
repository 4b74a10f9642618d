"""For which of vLLM's structured-output backends white space is left out of JSON."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from paceline.runtime.engine.scheduler.compact_json import disable_json_whitespace


@pytest.mark.parametrize("backend", ["auto", "xgrammar", "guidance"])
def test_the_option_is_set_where_it_is_honoured(backend: str) -> None:
    options = SimpleNamespace(backend=backend, disable_any_whitespace=False)
    disable_json_whitespace(SimpleNamespace(structured_outputs_config=options))
    assert options.disable_any_whitespace is True


@pytest.mark.parametrize("backend", ["outlines", "lm-format-enforcer"])
def test_elsewhere_the_log_says_what_to_change(
    backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = SimpleNamespace(backend=backend, disable_any_whitespace=False)
    disable_json_whitespace(SimpleNamespace(structured_outputs_config=options))
    assert options.disable_any_whitespace is False
    assert f"the structured-output backend is '{backend}'" in caplog.text


def test_a_vllm_without_the_option_is_served(caplog: pytest.LogCaptureFixture) -> None:
    disable_json_whitespace(SimpleNamespace())
    assert "JSON answers may contain any amount of white space" in caplog.text
