"""A mock vLLM server with known tokens, known times and scripted faults.

It speaks the HTTP dialect of vLLM 0.32 and runs no model. Its answers are a pure function of the
request (`expected_answer`), so that a test of a gateway or a client can detect every token that was
lost, repeated or mixed up.
"""

from paceline.testing.mock_vllm.faults.fault import Fault, FaultKind
from paceline.testing.mock_vllm.faults.fault_script import load_faults, read_faults
from paceline.testing.mock_vllm.model.answer import Answer, expected_answer
from paceline.testing.mock_vllm.model.vocabulary import decode, encode_chat, encode_text
from paceline.testing.mock_vllm.request_log import RequestRecord, hash_of_ids, read_request_log
from paceline.testing.mock_vllm.server import MockVllm
from paceline.testing.mock_vllm.settings import MockVllmSettings
from paceline.testing.mock_vllm.spawn import SpawnedMockVllm, spawn_mock_vllm

__all__ = [
    "Answer",
    "Fault",
    "FaultKind",
    "MockVllm",
    "MockVllmSettings",
    "RequestRecord",
    "SpawnedMockVllm",
    "decode",
    "encode_chat",
    "encode_text",
    "expected_answer",
    "hash_of_ids",
    "load_faults",
    "read_faults",
    "read_request_log",
    "spawn_mock_vllm",
]
