"""Servers of a tuning: `paceline serve` for real, and the fields of a user's command."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from paceline.foundation.results.slo import Slo
from paceline.foundation.workloads import Prompt, SamplingSettings
from paceline.testing.mock_vllm import spawn_mock_vllm
from paceline.workbench.tune.live.block import LoadSettings
from paceline.workbench.tune.live.servers import (
    PacelineLauncher,
    ServerSettings,
    check_template,
    fill_command,
)
from paceline.workbench.tune.values import (
    Cell,
    LiveSetting,
    Purpose,
    RestartConfig,
    Trial,
    TuneError,
)
from unit.tune.simulated import make_problem


def server_settings(restart: RestartConfig, folder: Path) -> ServerSettings:
    prompts = [Prompt("t", None, f"request {n}", max_tokens=4) for n in range(10)]
    sampling = SamplingSettings("", 0.0, None, None, 0, {})
    lives = (LiveSetting(None, 2), LiveSetting(None, 6))
    return ServerSettings(
        problem=make_problem(settings={restart: lives}),
        load=LoadSettings(prompts, sampling, Slo(ttft_ms=60_000), block_s=0.25, seed=0),
        folder=folder,
        api_key=None,
        start_timeout_s=60.0,
        request_timeout_s=30.0,
    )


async def test_a_configuration_is_served_with_the_largest_limit_measured_and_stopped(
    tmp_path: Path,
) -> None:
    """The gateway of `paceline serve` in front of a mock engine; its own keys are left out."""
    restart = RestartConfig((("server.max_choices", 3),))
    with spawn_mock_vllm("--tpot-ms", "2") as mock:
        base = {
            "engine": {"replicas": 0},
            "replicas": [{"url": mock.url}],
            "keys": {"file": str(tmp_path / "missing")},
        }
        launcher = PacelineLauncher(server_settings(restart, tmp_path), base)
        async with launcher.start(restart) as server:
            trial = Trial(Cell(restart, LiveSetting(None, 6)), Purpose.SEARCH, 0)
            measured = await server.run(trial)
        assert measured.good_requests_per_s > 0
        assert measured.num_errors == 0
    written = yaml.safe_load((tmp_path / "server-0.yaml").read_text())
    assert written["admission"] == {"max_in_flight": 6}
    assert written["server"] == {"max_choices": 3}
    assert "keys" not in written


def test_fields_are_filled_and_quotes_are_kept_together() -> None:
    command = fill_command(
        "serve 'my model' --port {port} --seqs={seqs}", RestartConfig((("seqs", 8),)), 81, 82
    )
    assert command == ["serve", "my model", "--port", "81", "--seqs=8"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("serve --seqs {seqs}", "has no field {port}"),
        ("serve {port}", "has no field {seqs}, which --space varies"),
        ("serve {port} {seqs} {x}", "has the field {x}, for which --space has no values"),
        ("serve {port", "is no template"),
    ],
)
def test_wrong_templates_are_refused(template: str, message: str) -> None:
    with pytest.raises(TuneError) as error:
        check_template(template, {"seqs"})
    assert message in str(error.value)


def test_the_admin_port_is_optional() -> None:
    check_template("serve {port} {admin_port} {seqs}", {"seqs"})
    check_template("serve {port} {seqs}", {"seqs"})
