"""Back-off, bounded logs, last words, commands: what the supervisor decides without processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from paceline.engine.launch.command import EngineSpec, num_workers, render_command
from paceline.engine.launch.layout import Layout
from paceline.engine.process.backoff import Backoff
from paceline.engine.process.engine_probe import warm_up_requests
from paceline.engine.process.engine_process import last_errors
from paceline.engine.process.guard import BoundedLog

LAYOUT = Layout("float32", ("--dtype", "float32"), {"OMP_NUM_THREADS": "2"}, (0, 1), ())


def test_delays_double_up_to_a_minute_and_never_give_up() -> None:
    backoff, delays = Backoff(), []
    for _ in range(9):
        backoff = backoff.after(ready_for_s=None)
        delays.append(backoff.delay_s)
    assert delays == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


def test_a_stable_run_starts_the_count_from_the_front() -> None:
    backoff = Backoff(num_failures=7)
    assert backoff.after(ready_for_s=59.0).num_failures == 8
    assert backoff.after(ready_for_s=60.0).num_failures == 1


def test_a_loop_is_told_from_the_fifth_failure_in_a_row() -> None:
    assert not Backoff(4).is_looping
    assert Backoff(5).is_looping


def test_the_log_never_grows_past_its_bound(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "new" / "e.log", max_bytes=10)
    for chunk in (b"12345", b"67890", b"abc"):
        log.write(chunk)
    assert (tmp_path / "new" / "e.log").read_bytes() == b"abc"
    assert (tmp_path / "new" / "e.log.1").read_bytes() == b"1234567890"


def test_a_full_disk_costs_lines_of_the_log_and_nothing_else() -> None:
    """/dev/full refuses every write."""
    log = BoundedLog(Path("/dev/full"))
    log.write(b"lost")
    log.write(b"lost too")


def test_what_the_log_lost_is_said_when_it_can_be_written_again(tmp_path: Path) -> None:
    """Rotation fails while a folder lies where the older part belongs."""
    log = BoundedLog(tmp_path / "e.log", max_bytes=1000)
    log.write(b"a" * 900)
    obstacle = tmp_path / "e.log.1" / "x"
    obstacle.mkdir(parents=True)
    log.write(b"b" * 200)
    log.write(b"c" * 200)
    obstacle.rmdir()
    obstacle.parent.rmdir()
    log.write(b"d" * 200)
    assert (tmp_path / "e.log.1").read_bytes() == b"a" * 900
    written = (tmp_path / "e.log").read_bytes()
    assert written.startswith(b"guard: 400 bytes of output are lost here: ")
    assert written.endswith(b"\n" + b"d" * 200)


@pytest.mark.parametrize("max_model_len", [16, 17, 127])
def test_warming_up_asks_no_more_than_a_short_context_holds(max_model_len: int) -> None:
    """One letter is at most eight tokens with whatever a tokenizer puts around it."""
    for request in warm_up_requests(max_model_len):
        assert 1 <= request["max_tokens"] <= min(24, max_model_len - 8)
        assert len(request["prompt"]) == 1


@pytest.mark.parametrize("max_model_len", [128, 32_768, None])
def test_warming_up_is_the_same_for_all_other_contexts(max_model_len: int | None) -> None:
    assert [request["max_tokens"] for request in warm_up_requests(max_model_len)] == [24, 24]


def test_last_words_are_errors_without_prefixes_told_once() -> None:
    text = """\
(APIServer pid=1) INFO 11-21 02:47:59 [entry.py:10] starting
(EngineCore pid=2) ERROR 11-21 02:48:05 [core.py:72] Traceback (most recent call last):
(EngineCore pid=2) ERROR 11-21 02:48:05 [core.py:72]   File "x.py", line 3, in f
(EngineCore pid=2) ERROR 11-21 02:48:05 [core.py:72] ValueError: 32768 tokens do not fit
ValueError: 32768 tokens do not fit
RuntimeError: Engine core initialization failed. See root cause above.
"""
    assert last_errors(text) == ["ValueError: 32768 tokens do not fit"]


def test_last_words_hold_what_pydantic_says_on_the_next_line() -> None:
    text = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, max_model_len (9) is greater than 8 [type=value_error, input_value=…]
    For further information visit https://errors.pydantic.dev
"""
    assert last_errors(text) == [
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "Value error, max_model_len (9) is greater than 8",
    ]


def test_last_words_without_errors_are_the_last_lines() -> None:
    assert last_errors("a\n\nb\nc\nd\ne\n") == ["b", "c", "d", "e"]
    assert last_errors("") == []


def test_the_command_carries_governor_drafter_and_sockets(tmp_path: Path) -> None:
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
    assert arguments[:3] == (sys.executable, "-m", "some.module")
    assert arguments[-4:] == ("--dtype", "float32", "--max-num-seqs", "4")

    def value(flag: str) -> str:
        return arguments[arguments.index(flag) + 1]

    assert value("--uds") == str(tmp_path / "engine-0.sock")
    assert value("--scheduler-cls") == "paceline.engine.AdaptiveScheduler"
    assert json.loads(value("--additional-config")) == {
        "paceline": {
            "policy": "fixed",
            "draft_length": 3,
            "control_socket": str(tmp_path / "engine-0.control.sock"),
        }
    }
    assert json.loads(value("--speculative-config"))["method"] == "ngram"
    assert value("--max-model-len") == "512"
    assert command.environment["OMP_NUM_THREADS"] == "2"
    assert command.environment["PACELINE_SUPERVISED"] == "1"


def test_without_speculation_there_is_no_control_channel(tmp_path: Path) -> None:
    spec = EngineSpec(model="/m", served_name="m", speculative_config=None, policy="goodput")
    command = render_command(spec, LAYOUT, tmp_path, "engine-0", "some.module")
    assert command.control_socket is None
    assert "--speculative-config" not in command.arguments


@pytest.mark.parametrize(
    ("vllm_args", "expected"),
    [
        ((), 1),
        (("--tensor-parallel-size", "4"), 4),
        (("-tp=2", "--pipeline-parallel-size=3"), 6),
        (("--tensor_parallel_size", "2", "--pipeline_parallel_size=2"), 4),
        (("--max-num-seqs", "8"), 1),
    ],
)
def test_workers_are_counted_from_vllms_own_arguments(
    vllm_args: tuple[str, ...], expected: int
) -> None:
    assert num_workers(vllm_args) == expected


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--uds", "sockets of its own"),
        ("--uds=/tmp/x.sock", "sockets of its own"),
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
def test_arguments_that_paceline_relies_on_are_refused(argument: str, said: str) -> None:
    """However vLLM's parser lets them be written; the setting is named."""
    with pytest.raises(ValueError, match=f"engine.vllm_args has .*{said}"):
        make_spec({"method": "ngram"}, argument, "x")


def test_other_arguments_pass(tmp_path: Path) -> None:
    """Among them flags that only begin like Paceline's, and values that look like nothing."""
    make_spec({"method": "ngram"}, "--model-impl", "auto", "-tp", "2", "--max_num_seqs=4")


@pytest.mark.parametrize("argument", ["--speculative-config", "--speculative_config={}", "-sc"])
def test_without_a_drafter_of_ours_vllm_may_be_given_one(tmp_path: Path, argument: str) -> None:
    """It is governed like ours."""
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
    said = "speculative method extract_hidden_states, which cannot be governed: it extracts states"
    with pytest.raises(ValueError, match=said):
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
def test_what_may_work_is_left_to_vllm(vllm_args: tuple[str, ...]) -> None:
    """Under one of its model runners, by another name, or for it to complain about."""
    assert make_spec(None, *vllm_args).is_speculative


def make_spec(speculative_config: dict[str, object] | None, *vllm_args: str) -> EngineSpec:
    return EngineSpec(
        model="/m",
        served_name="m",
        speculative_config=speculative_config,
        policy="goodput",
        vllm_args=vllm_args,
    )
