"""A policy of another package is found, checked, built and run like a built-in one."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from paceline import PolicyDefinition, check_policy, create_policy, policy_names
from paceline.cli import main
from paceline.runtime.config import ConfigError, load_settings
from paceline.runtime.engine.launch.command import EngineSpec, render_command
from paceline.runtime.engine.launch.layout import Layout
from paceline.runtime.engine.scheduler.control_channel import answer
from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.settings import PluginSettings, parse_settings
from paceline.runtime.gateway.admin.admin_app import check_governor_change
from paceline.runtime.governor.policies.builtin import BUILTIN_POLICIES
from paceline.runtime.governor.values import EngineLoad
from paceline.runtime.policy_registry import find_policy, load_policies
from paceline.runtime.policy_registry.entry_points import forget_entry_points
from unit.governor.steady import EASY, SteadyEngine
from unit.policy_registry.foreign_package import BROKEN_ENTRY_POINTS, install

LOAD = EngineLoad(
    num_requests=2, context_tokens=100, prefill_tokens=0, num_waiting=0, max_draft_length=8
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package is installed for the time of the test."""
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget_entry_points()
    yield tmp_path
    sys.modules.pop("stepped_policy", None)
    forget_entry_points()


@pytest.fixture
def broken(tmp_path: Path, installed: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Beside it a package whose entry points are all wrong."""
    caplog.set_level(logging.ERROR, "vllm.paceline.policies")
    install(tmp_path, BROKEN_ENTRY_POINTS, name="broken-package")
    forget_entry_points()


@pytest.mark.usefixtures("installed")
def test_it_is_found_by_its_name() -> None:
    assert policy_names() == (*BUILTIN_POLICIES, "plain", "stepped")
    assert find_policy("stepped").summary == "Every length in turn."
    assert find_policy("plain").summary == "Every length in turn, one step each."
    assert load_policies() == ["plain", "stepped"]


@pytest.mark.usefixtures("installed")
def test_it_keeps_the_contract() -> None:
    check_policy("stepped")
    check_policy("stepped", hold=3, highest=2)
    check_policy("plain")


@pytest.mark.usefixtures("installed")
def test_it_is_built_with_its_parameters() -> None:
    policy = create_policy("stepped", max_draft_length=8, hold=2, highest=1)
    assert [policy.plan(LOAD).draft_length for _ in range(6)] == [0, 0, 1, 1, 0, 0]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hold": 0}, "hold is 0; it must be a whole number, 1 or more"),
        ({"hold": 1.5}, r"hold is 1\.5; it must be a whole number"),
        ({"highest": 65}, "highest is 65; it must be a whole number from 0 to 64"),
        ({"pace": 1}, "policy stepped has no parameter 'pace'; its parameters: hold, highest"),
    ],
)
def test_wrong_parameters_are_refused_in_every_channel(
    parameters: dict[str, object], message: str
) -> None:
    """By the function, by vLLM's additional_config, by the configuration, and at run time."""
    chosen = {"policy": "stepped", "policy_parameters": parameters}
    with pytest.raises(ValueError, match=message):
        create_policy("stepped", max_draft_length=8, **parameters)
    with pytest.raises(ValueError, match=f"{message}.*set it in --additional-config"):
        parse_settings({"paceline": chosen}, max_draft_length=8)
    environ = {
        "PACELINE_ENGINE__POLICY": "stepped",
        "PACELINE_ENGINE__POLICY_PARAMETERS": json.dumps(parameters),
    }
    with pytest.raises(ConfigError, match=message):
        load_settings({}, environ)
    controller = DraftLengthController(PluginSettings(), EngineAbilities(8, "ngram"))
    with pytest.raises(ValueError, match=message):
        controller.set(chosen)
    assert controller.state()["policy"] == "goodput"


@pytest.mark.usefixtures("installed")
def test_it_runs_in_the_simulator() -> None:
    engine = SteadyEngine(create_policy("stepped", max_draft_length=8, hold=3))
    assert engine.lengths(4, EASY, 9) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.usefixtures("installed")
def test_it_runs_in_the_engine_with_the_settings_of_the_command_line() -> None:
    """From "paceline" in vLLM's additional_config to the plans of the controller."""
    given = {"policy": "stepped", "policy_parameters": {"hold": 1, "highest": 2}}
    settings = parse_settings({"paceline": given}, max_draft_length=8)
    controller = DraftLengthController(settings, EngineAbilities(8, "ngram"))
    assert [controller.plan(LOAD).draft_length for _ in range(4)] == [0, 1, 2, 0]
    assert controller.state()["policy"] == "stepped"


@pytest.mark.usefixtures("installed")
def test_an_operator_changes_to_it_and_back() -> None:
    """With the same parameters the policy keeps its state; with others it starts anew."""
    controller = DraftLengthController(PluginSettings(), EngineAbilities(8, "ngram"))
    change = check_governor_change({"policy": "stepped", "policy_parameters": {"hold": 1}})
    controller.set(change)
    assert [controller.plan(LOAD).draft_length for _ in range(3)] == [0, 1, 2]
    controller.set({"draft_length": 7})
    assert controller.plan(LOAD).draft_length == 7
    controller.set(change)
    assert controller.plan(LOAD).draft_length == 3
    controller.set({"policy": "stepped", "policy_parameters": {"hold": 2}})
    assert [controller.plan(LOAD).draft_length for _ in range(3)] == [0, 0, 1]


@pytest.mark.usefixtures("installed")
def test_paceline_serve_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--policy takes it, shows it, and refuses one that does not exist with all that do."""
    monkeypatch.chdir(tmp_path)
    Path("paceline.yaml").write_text("engine: {policy_parameters: {hold: 4}}\n")
    shown = CliRunner().invoke(main, ["serve", "--policy", "stepped", "--print-config"])
    assert shown.exit_code == 0, shown.output
    assert "policy: stepped  # flag --policy" in shown.output
    assert "policy_parameters: {hold: 4}  # file paceline.yaml" in shown.output
    refused = CliRunner().invoke(main, ["serve", "--policy", "steady"])
    assert refused.exit_code == 2
    assert "policy is 'steady'; it must be one of goodput, " in refused.output
    assert ", plain, stepped" in refused.output


def test_its_parameters_reach_the_engine_command(tmp_path: Path) -> None:
    drafter = {"method": "ngram", "num_speculative_tokens": 4}
    spec = EngineSpec("m", "m", drafter, "stepped", policy_parameters={"hold": 4})
    layout = Layout("float32", (), {}, (0,), ())
    arguments = render_command(spec, layout, tmp_path, "engine-0", "some.module").arguments
    sent = json.loads(arguments[arguments.index("--additional-config") + 1])["paceline"]
    assert (sent["policy"], sent["policy_parameters"]) == ("stepped", {"hold": 4})


@pytest.mark.usefixtures("broken")
def test_a_broken_entry_point_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Each fault once, with the package and the reason; the sound policies stay."""
    assert load_policies() == ["plain", "stepped"]
    assert load_policies() == ["plain", "stepped"]
    errors = [record.getMessage() for record in caplog.records]
    assert len(errors) == 4
    said = "\n".join(errors)
    assert "Policy goodput of broken-package is left out: a built-in policy has this name" in said
    assert "Policy broken is left out: entry point broken = no_such_module:POLICY of" in said
    assert "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'" in said
    assert "holds the policy stepped; give both the same name" in said
    assert "number = stepped_policy:__doc__ of broken-package is a str; it must be" in said
    with pytest.raises(ValueError, match="policy broken cannot be used: entry point broken"):
        create_policy("broken", max_draft_length=8)


@pytest.mark.usefixtures("broken")
def test_a_broken_entry_point_does_not_touch_the_built_in_policies() -> None:
    """Configuration, settings and controller work, and goodput is ours."""
    assert load_settings({}, {}).settings.engine.policy == "goodput"
    settings = parse_settings({"paceline": {}}, max_draft_length=8)
    controller = DraftLengthController(settings, EngineAbilities(8, "ngram"))
    assert 0 <= controller.plan(LOAD).draft_length <= 8
    assert find_policy("goodput") is BUILTIN_POLICIES["goodput"]
    assert isinstance(find_policy("goodput"), PolicyDefinition)


def test_it_is_found_through_pythonpath(tmp_path: Path) -> None:
    """In a process of its own, as vLLM's engine core is one."""
    install(tmp_path)
    script = "import paceline; print(paceline.policy_names()[-1])"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "stepped"


def test_a_policy_that_cannot_be_built_is_refused_with_a_message(
    tmp_path: Path, installed: Path
) -> None:
    """Any exception of its constructor: the operator gets an answer, and nothing changes."""
    module = "class UnbuildablePolicy:\n"
    module += "    def __init__(self, max_draft_length):\n        raise KeyError('table')\n"
    module += "    def plan(self, load):\n        ...\n"
    (tmp_path / "unbuildable_policy.py").write_text(module)
    entry_points = "[paceline.policies]\nunbuildable = unbuildable_policy:UnbuildablePolicy\n"
    install(tmp_path, entry_points, name="unbuildable-policy")
    forget_entry_points()
    controller = DraftLengthController(PluginSettings(), EngineAbilities(8, "ngram"))
    reply = answer(b'{"op": "set", "policy": "unbuildable"}', controller)
    assert reply == {
        "ok": False,
        "error": "policy unbuildable cannot be built: KeyError: 'table'",
    }
    assert controller.state()["policy"] == "goodput"


def test_a_broken_module_is_imported_once(tmp_path: Path, installed: Path) -> None:
    """At start; a change at run time, which holds the controller's lock, imports nothing."""
    (tmp_path / "slow_policy.py").write_text(
        "import sys\nsys.paceline_imports = getattr(sys, 'paceline_imports', 0) + 1\n1 / 0\n"
    )
    install(tmp_path, "[paceline.policies]\nslow = slow_policy:POLICY\n", name="slow-policy")
    forget_entry_points()
    load_policies()
    controller = DraftLengthController(PluginSettings(), EngineAbilities(8, "ngram"))
    for _ in range(3):
        with pytest.raises(ValueError, match=r"policy slow cannot be used: .*ZeroDivisionError"):
            controller.set({"policy": "slow"})
    assert vars(sys).pop("paceline_imports") == 1
