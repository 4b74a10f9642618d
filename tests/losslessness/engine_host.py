"""A real vLLM engine in a child process, driven by a test or a script over pipes.

One engine at a time is vLLM's limit, and one process a clean slate: each host has its own
environment (`VLLM_PLUGINS=""` for stock vLLM), and an optional fault is planted before vLLM starts.
The engine core runs inside the child itself, so a planted fault reaches scheduler and worker.

Protocol: one JSON object per line on the child's standard input, one answer per line on a pipe of
its own; vLLM's log goes to the log file.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_TESTS = Path(__file__).resolve().parents[1]
_START_TIMEOUT_S = 240.0


class EngineHost:
    """Starts an engine, generates, reads vLLM's metrics, talks to the control channel, ends it."""

    def __init__(
        self,
        llm: Mapping[str, Any],
        *,
        policy: Mapping[str, Any] | None = None,
        plugins: str | None = None,
        fault: str | None = None,
        num_threads: int = 1,
    ) -> None:
        """Start vLLM with `llm` as arguments of `vllm.LLM`.

        `policy`: the "paceline" settings, which also turns AdaptiveScheduler and the control
        channel on; None is vLLM's own scheduler. `plugins`: the value of VLLM_PLUGINS. `fault`:
        `module:function`, called in the child before vLLM starts.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="paceline-")
        self._socket_path = f"{self._folder.name}/c.sock"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")]),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "OMP_NUM_THREADS": str(num_threads),
            # The n-gram drafter's thread pool inherits the one core that vLLM binds to, and its
            # idle threads spin there: measured five times slower with two threads than with one.
            "NUMBA_NUM_THREADS": "1",
            "NUMBA_THREADING_LAYER": "workqueue",
            "HF_HUB_OFFLINE": "1",
        }
        if plugins is not None:
            environment["VLLM_PLUGINS"] = plugins
        self.log_path = Path(self._folder.name) / "vllm.log"
        answers, answers_end = os.pipe()
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "losslessness.engine_host", str(answers_end)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(answers_end,),
                env=environment,
                start_new_session=True,
            )
        os.close(answers_end)
        self._answers = os.fdopen(answers, "r", encoding="utf-8")
        try:
            self.ask({"op": "start", "llm": self._arguments(llm, policy), "fault": fault})
        except BaseException:
            self.close()
            raise

    def restart(self, llm: Mapping[str, Any], *, policy: Mapping[str, Any] | None = None) -> None:
        """End the engine and start another in the same process, where all is imported already.

        That takes a third of the time. A planted fault stays.
        """
        self.ask({"op": "start", "llm": self._arguments(llm, policy), "fault": None})

    def _arguments(
        self, llm: Mapping[str, Any], policy: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        arguments = {"enforce_eager": True, "disable_log_stats": False, **llm}
        if policy is not None:
            arguments["scheduler_cls"] = "paceline.engine.AdaptiveScheduler"
            arguments["additional_config"] = {
                "paceline": {**policy, "control_socket": self._socket_path}
            }
        return arguments

    def generate(
        self,
        prompts: Sequence[Sequence[int] | str],
        *,
        each: Sequence[Mapping[str, Any]] | None = None,
        **sampling: Any,
    ) -> list[dict[str, Any]]:
        """Generate for all prompts at once, with `sampling` as arguments of SamplingParams.

        `each` adds to them per prompt.

        Each answer has `token_ids`, `text`, and where asked for `logprobs` and `prompt_logprobs`:
        one mapping from token id to log-probability per position.
        """
        parameters = [{**sampling, **(each[i] if each else {})} for i in range(len(prompts))]
        answer = self.ask({"op": "generate", "prompts": list(prompts), "sampling": parameters})
        return [
            {
                **output,
                "logprobs": _whole_keys(output["logprobs"]),
                "prompt_logprobs": _whole_keys(output["prompt_logprobs"]),
            }
            for output in answer["outputs"]
        ]

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts, by the engine's tokenizer."""
        ids: list[list[int]] = self.ask({"op": "tokenize", "texts": list(texts)})["token_ids"]
        return ids

    def metrics(self) -> dict[str, Any]:
        """vLLM's own speculation counters."""
        metrics: dict[str, Any] = self.ask({"op": "metrics"})["metrics"]
        return metrics

    def control(self, **request: Any) -> dict[str, Any]:
        """One exchange on the control channel, from outside the engine's process."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10.0)
            connection.connect(self._socket_path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline())
        return answer

    def state(self) -> dict[str, Any]:
        """The governor's state."""
        state: dict[str, Any] = self.control(op="state")["state"]
        return state

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send one request to the child and wait for its answer; RuntimeError with its error."""
        assert self._process.stdin is not None
        line = ""
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._answers.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"the engine ended: …{self._log_tail()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{answer['error']}\n…{self._log_tail()}")
        return answer

    def log(self) -> str:
        """vLLM's log so far."""
        return self.log_path.read_text(errors="replace")

    def close(self) -> None:
        """End the child and everything it started."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(timeout=20.0)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._answers.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _log_tail(self) -> str:
        return self.log()[-3000:]


def _whole_keys(positions: list[dict[str, float] | None] | None) -> list[dict[int, float]] | None:
    if positions is None:
        return None
    return [{int(k): v for k, v in (known or {}).items()} for known in positions]


def _serve(answers: Any) -> None:
    """The child's side."""
    llm: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "start":
                ended, llm = llm, None
                _end(ended)
                del ended
                llm = _start(request["llm"], request["fault"])
                answer: dict[str, Any] = {}
            elif request["op"] == "generate":
                answer = {"outputs": _generate(llm, request["prompts"], request["sampling"])}
            elif request["op"] == "tokenize":
                tokenizer = llm.get_tokenizer()
                answer = {"token_ids": [tokenizer.encode(text) for text in request["texts"]]}
            else:
                answer = {"metrics": _metrics(llm)}
        except Exception as error:  # noqa: BLE001 - handed to the parent, which raises it
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _start(arguments: dict[str, Any], fault: str | None) -> Any:
    if fault is not None:
        module_name, _, function_name = fault.partition(":")
        getattr(importlib.import_module(module_name), function_name)()
    from vllm import LLM

    return LLM(**arguments)


def _end(llm: Any) -> None:
    """Give back what the engine holds, so that the process can have another."""
    if llm is None:
        return
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    llm.llm_engine.engine_core.shutdown()
    cleanup_dist_env_and_memory()


def _generate(llm: Any, prompts: list[Any], sampling: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from vllm import SamplingParams

    inputs = [p if isinstance(p, str) else {"prompt_token_ids": p} for p in prompts]
    answers = []
    parameters = [SamplingParams(**one) for one in sampling]
    for output in llm.generate(inputs, parameters, use_tqdm=False):
        completion = output.outputs[0]
        answers.append(
            {
                "prompt_token_ids": list(output.prompt_token_ids),
                "token_ids": list(completion.token_ids),
                "text": completion.text,
                "logprobs": _plain(completion.logprobs),
                "prompt_logprobs": _plain(output.prompt_logprobs),
            }
        )
    return answers


def _plain(positions: Any) -> Any:
    if positions is None:
        return None
    return [
        None if known is None else {token_id: entry.logprob for token_id, entry in known.items()}
        for known in positions
    ]


def _metrics(llm: Any) -> dict[str, Any]:
    return {
        metric.name: getattr(metric, "value", getattr(metric, "values", None))
        for metric in llm.get_metrics()
        if "spec_decode" in metric.name
    }


if __name__ == "__main__":
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as pipe:
        _serve(pipe)
