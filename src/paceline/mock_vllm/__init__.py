"""A simulated vLLM server with known tokens, known times and scripted faults.

It speaks the HTTP dialect of vLLM 0.32 and runs no model: what it answers is a pure function of
the request (`expected_answer`), so that whoever stands before it, a gateway or a client, can be
tested for losing, repeating or mixing up tokens.
"""

from paceline.mock_vllm.faults.fault_book import Fault, FaultKind, load_faults, read_faults
from paceline.mock_vllm.model.answer import Answer, expected_answer
from paceline.mock_vllm.model.vocabulary import decode, encode_chat, encode_text
from paceline.mock_vllm.request_log import Record, hash_of_ids, read_ledger
from paceline.mock_vllm.server import MockVllm
from paceline.mock_vllm.settings import MockVllmSettings
from paceline.mock_vllm.spawn import SpawnedMockVllm, spawn_mock_vllm

__all__ = [
    "Answer",
    "Fault",
    "FaultKind",
    "MockVllm",
    "MockVllmSettings",
    "Record",
    "SpawnedMockVllm",
    "decode",
    "encode_chat",
    "encode_text",
    "expected_answer",
    "hash_of_ids",
    "load_faults",
    "read_faults",
    "read_ledger",
    "spawn_mock_vllm",
]
