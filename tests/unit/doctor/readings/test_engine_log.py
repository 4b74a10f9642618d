"""What clients and models wrote into a log is not the engine's."""

from __future__ import annotations

import doctest

import pytest

from paceline.operations.doctor.checks.log.messages import judge_log
from paceline.operations.doctor.readings import engine_log
from paceline.operations.doctor.readings.engine_log import (
    is_remark,
    root_exception,
    without_client_text,
)

TEXT = "CUDA out of memory; Too many open files; Killed process 7 (OOMKilled); device_config=cpu"
API = "(APIServer pid=9) "
BY_CLIENTS = [
    f"{API}INFO 11-02 10:01:00 [logger.py:94] Generated response c-1 (streaming delta): "
    f"output: '{TEXT}', finish_reason: None",
    f"{API}INFO 11-02 10:01:00 [request_logger.py:40] Received request c-1: prompt: '{TEXT}', "
    "params: SamplingParams(n=1), lora_request: None.",
    f"{API}DEBUG 11-02 10:01:00 [entrypoints/logger.py:50] Request c-1 details: prompt: '{TEXT}'",
    f'{API}DEBUG 11-02 10:01:00 [logger.py:70] Request c-1 JSON body: {{"prompt": "{TEXT}"}}',
    f'{API}INFO 11-02 10:01:00 [log_response.py:141] response_body={{"text": "{TEXT}"}}',
    f"\x1b[0;36m{API}\x1b[0;0mINFO 11-02 10:01:00 [logger.py:9] Generated response c: {TEXT}",
    f"{API}ERROR 11-02 10:01:00 [serving.py:274] Error with model error=ErrorInfo(message='The "
    f"model `{TEXT}` does not exist.')",
    f"{API}WARNING 11-02 10:01:00 [protocol.py:73] The following fields were present in the "
    f"request but ignored: {{'{TEXT}'}}",
    f"{API}WARNING 11-02 10:01:00 [hy_v3_tool_parser.py:97] No tool named '{TEXT}'.",
    f"{API}ERROR 11-02 10:01:00 [serving.py:9] 1 validation error [input_value='{TEXT}'",
    f'{API}INFO:     10.0.0.5:50312 - "GET /oom-kill?EMFILE HTTP/1.1" 404 Not Found',
    '{"levelname": "INFO", "message": "Generated response c-1: output: \'' + TEXT + "'\"}",
    '{"log":"INFO 11-02 10:01:00 [logger.py:94] Generated response c: ' + TEXT + '\\n"}',
    f"2026-11-02T10:01:00Z {API}INFO 11-02 10:01:00 [logger.py:94] Generated response c: {TEXT}",
]


@pytest.mark.parametrize("line", BY_CLIENTS)
def test_words_of_clients_and_models_are_no_finding(line: str) -> None:
    (plain,) = without_client_text([line])
    assert judge_log([plain]) == []
    assert "device_config" not in plain


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore pid=7) ERROR 11-02 10:00:20 [core.py:1100] torch.OutOfMemoryError: CUDA out "
        "of memory. Tried to allocate 2.00 GiB.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "\x1b[0;36m(Worker_TP1 pid=7)\x1b[0;0m ERROR 11-02 10:00:20 [serving.py:204] CUDA out of "
        "memory",
        '{"log":"torch.OutOfMemoryError: CUDA out of memory.\\n","stream":"stderr"}',
    ],
)
def test_the_engines_own_words_are_kept(line: str) -> None:
    assert [one.id for one in judge_log(list(without_client_text([line])))] == ["log-out-of-memory"]


def test_a_line_that_only_mentions_a_level_is_no_remark() -> None:
    assert not is_remark("unhandled system error (run with NCCL_DEBUG=INFO for details)")
    assert is_remark("INFO:     Application startup complete.")


def test_the_root_exception_is_the_first_since_the_last_start() -> None:
    core = "(EngineCore pid=7) ERROR 11-02 10:00:20 [core.py:1100] "
    lines = [
        "ValueError: of an earlier start",
        "INFO 11-02 10:00:01 [api_server.py:1977] vLLM API server version 0.32.0",
        "(Worker pid=8) ERROR 11-02 10:00:19 [multiproc_executor.py:953] KeyError: 'layers.7.w'",
        f"{core}Exception: WorkerProc initialization failed due to an exception in a background "
        "process. See stack trace for root cause.",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    assert root_exception(lines) == "KeyError: 'layers.7.w'"
    assert root_exception(lines[:2]) is None


def test_examples_are_true() -> None:
    result = doctest.testmod(engine_log)
    assert result.attempted
    assert not result.failed
