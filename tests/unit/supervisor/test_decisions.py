"""Back-off, bounded logs, last words, commands: what the supervisor decides without processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from paceline.engine.backoff import Backoff
from paceline.engine.command import EngineSpec, num_workers, render_command
from paceline.engine.guard import BoundedLog
from paceline.engine.layout import Layout
from paceline.engine.process import last_errors

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
        (("--max-num-seqs", "8"), 1),
    ],
)
def test_workers_are_counted_from_vllms_own_arguments(
    vllm_args: tuple[str, ...], expected: int
) -> None:
    assert num_workers(vllm_args) == expected
