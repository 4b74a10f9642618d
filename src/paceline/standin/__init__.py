"""A simulated vLLM server with known tokens, known times and scripted faults.

It speaks the HTTP dialect of vLLM 0.32 and runs no model: what it answers is a pure function of
the request (`expected_answer`), so that whoever stands before it, a gateway or a client, can be
tested for losing, repeating or mixing up tokens.
"""

from paceline.standin.answer import Answer, expected_answer
from paceline.standin.faults import Fault, FaultKind, load_faults, read_faults
from paceline.standin.ledger import Record, hash_of_ids, read_ledger
from paceline.standin.server import StandIn
from paceline.standin.settings import StandInSettings
from paceline.standin.spawn import SpawnedStandIn, spawn_standin
from paceline.standin.vocabulary import decode, encode_chat, encode_text

__all__ = [
    "Answer",
    "Fault",
    "FaultKind",
    "Record",
    "SpawnedStandIn",
    "StandIn",
    "StandInSettings",
    "decode",
    "encode_chat",
    "encode_text",
    "expected_answer",
    "hash_of_ids",
    "load_faults",
    "read_faults",
    "read_ledger",
    "spawn_standin",
]
