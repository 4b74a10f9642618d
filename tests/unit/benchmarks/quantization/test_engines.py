"""Exchange with an engine's process: answers, errors of the engine, its end, and Ctrl-C."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.quantization import engines as module
from benchmarks.quantization.engines import EngineError, running_engines

CHILD = """
import json, os, sys
answers = os.fdopen(int(sys.argv[1]), "w")
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "end":
        print("the last words", flush=True)
        sys.exit(3)
    found = {"op": request["op"], "session": os.getsid(0), "plugins": os.environ["VLLM_PLUGINS"]}
    found["is_dynamo_off"] = os.environ.get("TORCHDYNAMO_DISABLE") == "1"
    answers.write(json.dumps({"error": "ValueError: no"} if request["op"] == "fail" else found))
    answers.write("\\n")
    answers.flush()
"""


@pytest.fixture(autouse=True)
def _child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "child.py"
    file.write_text(CHILD)
    monkeypatch.setattr(module, "_CHILD", file)


def test_an_engine_is_stock_and_ctrl_c_in_the_terminal_does_not_reach_it(tmp_path: Path) -> None:
    """It would look like an engine that failed; the benchmark ends it."""
    with running_engines({"a": {}}, tmp_path) as engines:
        assert engines["a"].started["plugins"] == ""
        assert engines["a"].started["session"] != os.getsid(0)


def test_only_an_eager_engine_has_the_environment_of_eager_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It switches off what compiles."""
    monkeypatch.delenv("TORCHDYNAMO_DISABLE", raising=False)
    arguments = {"eager": {"enforce_eager": True}, "compiled": {"enforce_eager": False}}
    with running_engines(arguments, tmp_path) as engines:
        assert engines["eager"].started["is_dynamo_off"]
        assert not engines["compiled"].started["is_dynamo_off"]


@pytest.mark.parametrize(
    ("op", "message"), [("fail", "ValueError: no"), ("end", "the engine ended with exit code 3")]
)
def test_an_error_names_the_engine_and_has_its_log(tmp_path: Path, op: str, message: str) -> None:
    with (
        running_engines({"a": {}, "b": {}}, tmp_path) as engines,
        pytest.raises(EngineError, match=message) as caught,
    ):
        engines["b"].ask(op=op)
    assert caught.value.engine == "b"
    assert ("the last words" in caught.value.log) == (op == "end")
