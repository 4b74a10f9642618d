"""The command line and environment of one engine."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.runtime.engine.launch.command import (
    WARM_CORE,
    EngineCommand,
    EngineSpec,
    chooses_gpus,
    max_num_seqs,
    num_workers,
    render_command,
)
from paceline.runtime.engine.launch.layout import Layout

LAYOUT = Layout("float32", ("--dtype", "float32"), {"OMP_NUM_THREADS": "2"}, (0, 1), ())


def test_the_command_has_governor_drafter_and_sockets(tmp_path: Path) -> None:
    spec = EngineSpec(
        model="/m",
        served_name="m",
        speculative_config={"method": "ngram", "num_speculative_tokens": 4},
        policy="fixed",
        draft_length=3,
        max_model_len=512,
        vllm_args=("--max-num-seqs", "4"),
    )
    command = render_command(spec, LAYOUT, tmp_path, "engine-0", "some.module")
    arguments = command.arguments
    assert arguments[:4] == (sys.executable, "-m", WARM_CORE, "some.module")
    on_gpus = render_command(spec, replace(LAYOUT, cpu_ids=()), tmp_path, "engine-0", "some.module")
    assert on_gpus.arguments[:3] == (sys.executable, "-m", "some.module")
    assert arguments[-4:] == ("--dtype", "float32", "--max-num-seqs", "4")

    def value(flag: str) -> str:
        return arguments[arguments.index(flag) + 1]

    assert value("--uds") == str(tmp_path / "engine-0.sock")
    assert value("--scheduler-cls") == "paceline.engine.AdaptiveScheduler"
    assert json.loads(value("--additional-config")) == {
        "paceline": {"policy": "fixed", "draft_length": 3}
    }
    control_socket = str(tmp_path / "engine-0.control.sock")
    assert command.environment["PACELINE_CONTROL_SOCKET"] == control_socket
    assert json.loads(value("--speculative-config"))["method"] == "ngram"
    assert value("--max-model-len") == "512"
    assert command.environment["OMP_NUM_THREADS"] == "2"
    assert command.environment["PACELINE_SUPERVISED"] == "1"


def test_reproducible_seeds_reach_the_scheduler(tmp_path: Path) -> None:
    spec = EngineSpec("/m", "m", None, policy="goodput", reproducible_seeds=True)
    arguments = render_command(spec, LAYOUT, tmp_path, "engine-0", "some.module").arguments
    governed = json.loads(arguments[arguments.index("--additional-config") + 1])["paceline"]
    assert governed["reproducible_seeds"] is True


def test_recordings_go_to_a_file_of_the_engine(tmp_path: Path) -> None:
    """None without a folder: recording is then refused."""
    spec = EngineSpec("/m", "m", None, policy="goodput")

    def file(**folder: Path) -> object:
        command = render_command(spec, LAYOUT, tmp_path, "engine-0", "some.module", **folder)
        return command.environment.get("PACELINE_RECORDING_FILE")

    assert file(recording_folder=Path("/logs")) == "/logs/engine-0.recording.jsonl"
    assert file() is None


def test_two_starts_of_an_engine_give_vllm_the_same_configuration(tmp_path: Path) -> None:
    """vLLM finds a compiled model by a hash of its configuration, in which `--uds` is not."""
    spec = EngineSpec("/m", "m", {"method": "ngram"}, policy="goodput")

    def configuration(folder: str, name: str) -> list[str]:
        command = render_command(
            spec, LAYOUT, tmp_path / folder, name, "some.module", recording_folder=tmp_path / folder
        )
        words = list(command.arguments)
        del words[words.index("--uds") : words.index("--uds") + 2]
        return words

    assert configuration("a", "engine-0") == configuration("b", "engine-1")


def test_without_speculation_there_is_no_control_channel(tmp_path: Path) -> None:
    spec = EngineSpec(model="/m", served_name="m", speculative_config=None, policy="goodput")
    command = render_command(spec, LAYOUT, tmp_path, "engine-0", "some.module")
    assert command.control_socket is None
    assert "--speculative-config" not in command.arguments


def test_all_ids_of_the_model_follow_the_first_one(tmp_path: Path) -> None:
    spec = EngineSpec(
        model="/m",
        served_name="m",
        aliases=("assistant", "gpt-4o"),
        speculative_config=None,
        policy="goodput",
    )
    command = render_command(spec, LAYOUT, tmp_path, "engine-0", "some.module")
    assert command.aliases == ("assistant", "gpt-4o")
    words = list(command.arguments)
    at = words.index("--served-model-name")
    assert words[at + 1 : at + 4] == ["m", "assistant", "gpt-4o"]
    assert words[at + 4].startswith("--")


@pytest.mark.parametrize(
    ("vllm_args", "expected"),
    [
        ((), 1),
        (("--tensor-parallel-size", "4"), 4),
        (("-tp=2", "--pipeline-parallel-size=3"), 6),
        (("--tensor_parallel_size", "2", "--pipeline_parallel_size=2"), 4),
        (("--max-num-seqs", "8"), 1),
        (("-tp=2", "-pp=3", "--nnodes", "3"), 2),
        (("-pp=2", "-n=2"), 1),
        (("-tp=auto",), 1),
    ],
)
def test_workers_are_counted_from_vllms_own_arguments(
    vllm_args: tuple[str, ...], expected: int
) -> None:
    assert num_workers(vllm_args) == expected


@pytest.mark.parametrize(
    ("vllm_args", "expected"),
    [
        (("-tp=2", "--max-num-seqs", "8"), False),
        (("--tensor-parallel", "2"), True),
        (("--tensor-parallel-size", "2"), False),
        (("-pcp=2",), True),
        (("--device-ids", "1"), True),
        (("--data_parallel_size=2",), True),
        (("--distributed-executor-backend", "ray"), True),
        (("--distributed-executor-backend", "mp"), False),
    ],
)
def test_gpus_are_left_to_arguments_that_choose_them(
    vllm_args: tuple[str, ...], expected: bool
) -> None:
    assert chooses_gpus(vllm_args) is expected


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--uds", "its own sockets"),
        ("--uds=/tmp/x.sock", "its own sockets"),
        ("--served_model_name", "engine.served_name"),
        ("--served-model", "engine.served_name"),
        ("--additional_config.paceline.policy", "engine.policy"),
        ("--scheduler-cls", "engine.policy"),
        ("--api-key=k", "without a key"),
        ("--model", "engine.model"),
        ("-sc", "engine.draft"),
        ("--speculative-config.method", "engine.draft"),
        ("--spec_method", "engine.draft"),
    ],
)
def test_arguments_that_paceline_sets_itself_are_refused(argument: str, message: str) -> None:
    """In every spelling that vLLM's parser accepts; the message names the setting to use."""
    with pytest.raises(ValueError, match=f"engine.vllm_args has .*{message}"):
        make_spec({"method": "ngram"}, argument, "x")


def test_other_arguments_pass(tmp_path: Path) -> None:
    """Also flags that share a prefix with Paceline's own."""
    make_spec({"method": "ngram"}, "--model-impl", "auto", "-tp", "2", "--max_num_seqs=4")


@pytest.mark.parametrize("argument", ["--speculative-config", "--speculative_config={}", "-sc"])
def test_the_user_may_configure_a_drafter_if_paceline_has_none(
    tmp_path: Path, argument: str
) -> None:
    """It is governed too."""
    spec = make_spec(None, argument, "{}")
    command = render_command(spec, LAYOUT, tmp_path, "engine-0", "some.module")
    assert command.control_socket is not None


@pytest.mark.parametrize(
    "vllm_args",
    [
        ("--speculative-config", '{"method": "extract_hidden_states"}'),
        ('--speculative_config={"method": "extract_hidden_states"}',),
        ("-sc", '{"method": "extract_hidden_states"}'),
        ("--spec-method", "extract_hidden_states"),
    ],
)
def test_a_drafter_that_cannot_be_governed_is_refused_before_anything_starts(
    vllm_args: tuple[str, ...],
) -> None:
    message = "speculative method extract_hidden_states, which cannot be governed: it extracts"
    with pytest.raises(ValueError, match=message):
        make_spec(None, *vllm_args)


@pytest.mark.parametrize(
    "vllm_args",
    [
        ("--speculative-config", '{"method": "deepseek_mtp"}'),
        ("--speculative-config", '{"model": "someone/medusa"}'),
        ("--speculative-config", "{"),
        ("--spec-method", "dspark"),
        ("--spec-method",),
    ],
)
def test_methods_that_may_work_are_left_to_vllm(vllm_args: tuple[str, ...]) -> None:
    """They work under one model runner, have another name, or are invalid, which vLLM reports."""
    assert make_spec(None, *vllm_args).is_speculative


def make_spec(speculative_config: dict[str, object] | None, *vllm_args: str) -> EngineSpec:
    return EngineSpec(
        model="/m",
        served_name="m",
        speculative_config=speculative_config,
        policy="goodput",
        vllm_args=vllm_args,
    )


@pytest.mark.parametrize(
    ("vllm_args", "expected"),
    [
        ((), None),
        (("--max-num-seqs", "64"), 64),
        (("--max_num_seqs=8", "--max-num-seqs", "16"), 16),
        (("--max-num-seqs", "many"), None),
    ],
)
def test_the_limit_on_running_requests_is_read_from_vllm_arguments(
    vllm_args: tuple[str, ...], expected: int | None
) -> None:
    """The last one counts, as in vLLM's parser."""
    assert max_num_seqs(vllm_args) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "none"),
        (("--speculative-config", '{"method": "draft_model", "model": "/draft"}'), "/draft"),
        (('--speculative-config={"method": "ngram"}',), "ngram"),
        (("-sc", '{"model": "a/b"}'), "a/b"),
        (("--spec-method", "eagle", "--spec-model", "/head"), "/head"),
        (("--spec-method", "suffix"), "suffix"),
        (("--speculative-config", "no JSON"), "no JSON"),
        (("--speculative-config", "[]"), "[]"),
    ],
)
def test_a_command_names_its_drafter(arguments: tuple[str, ...], expected: str) -> None:
    command = EngineCommand(("python", *arguments), {}, Path("/e.sock"), None)
    assert command.draft == expected
