"""A real vLLM engine in a process of its own, driven by a test or a script over pipes.

vLLM supports one engine per process. The process is forked from one that has imported vLLM (see
`fork_server`), with its own environment (`VLLM_PLUGINS=""` for stock vLLM); an optional fault is
injected before vLLM starts. The engine core runs inside that process, so a fault reaches scheduler
and worker.

Protocol: one JSON object per line on the child's standard input, one answer per line on a second
pipe; vLLM's log goes to the log file.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from losslessness.fork_server import shared_fork_server

_KV_CACHE_BYTES = 256 * 1024**2
"""32,000 tokens of the bundled pair; the start zeroes all of it."""


class EngineHost:
    """Start an engine, generate, read vLLM's metrics, use the control channel, end it."""

    def __init__(
        self,
        llm: Mapping[str, Any],
        *,
        policy: Mapping[str, Any] | None = None,
        plugins: str | None = None,
        fault: str | None = None,
        packages: Path | None = None,
    ) -> None:
        """Start vLLM with `llm` as arguments of `vllm.LLM`.

        `policy`: the "paceline" settings; turns AdaptiveScheduler and the control channel on. None
        is vLLM's own scheduler. `plugins`: the value of VLLM_PLUGINS. `fault`: `module:function`,
        called in the child before vLLM starts. `packages`: a folder of packages that the child has
        installed in addition to its own.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="paceline-")
        self._socket_path = f"{self._folder.name}/c.sock"
        self.log_path = Path(self._folder.name) / "vllm.log"
        environment = {"TMPDIR": self._folder.name}
        if plugins is not None:
            environment["VLLM_PLUGINS"] = plugins
        requests_end, requests = os.pipe()
        answers, answers_end = os.pipe()
        with self.log_path.open("wb") as log:
            self._pid = shared_fork_server().fork(
                requests=requests_end,
                answers=answers_end,
                log=log.fileno(),
                environment=environment,
            )
        os.close(requests_end)
        os.close(answers_end)
        self._requests = os.fdopen(requests, "wb")
        self._answers = os.fdopen(answers, "r", encoding="utf-8")
        try:
            start = {"op": "start", "llm": self._arguments(llm, policy), "fault": fault}
            self.ask({**start, "packages": None if packages is None else str(packages)})
        except BaseException:
            self.close()
            raise

    def _arguments(
        self, llm: Mapping[str, Any], policy: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        arguments = {
            "enforce_eager": True,
            "disable_log_stats": False,
            "kv_cache_memory_bytes": _KV_CACHE_BYTES,
            **llm,
        }
        if policy is not None:
            arguments["scheduler_cls"] = "paceline.engine.AdaptiveScheduler"
            arguments["additional_config"] = {
                "paceline": {
                    "costs_folder": "",  # measures none, which takes up to 10 s
                    **policy,
                    "control_socket": self._socket_path,
                }
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

        `each` adds parameters per prompt.

        Each answer has `token_ids` and `text`; `logprobs` and `prompt_logprobs`, where requested,
        have one mapping from token id to log-probability per position.
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

    def call(self, function: str, *arguments: Any) -> Any:
        """Call `module:function` in the engine's process, between requests; JSON values only."""
        answer = self.ask({"op": "call", "function": function, "arguments": arguments})
        return answer["result"]

    def metrics(self) -> dict[str, Any]:
        """vLLM's own counters of speculation, preemptions and cached prompt tokens."""
        metrics: dict[str, Any] = self.ask({"op": "metrics"})["metrics"]
        return metrics

    def control(self, **request: Any) -> dict[str, Any]:
        """One exchange on the control channel, from outside the engine's process."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60.0)
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
        line = ""
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
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
        """Kill the child and everything it started; its files are all in the host's folder."""
        shared_fork_server().end(self._pid)
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
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
