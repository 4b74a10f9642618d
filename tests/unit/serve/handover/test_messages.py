"""Processes of different versions of Paceline read each other's messages."""

from __future__ import annotations

import json

import msgspec

from paceline.runtime.serve.handover.messages import VERSION, Offer, OfferedEngine, decode

_OFFERED = {
    "name": "engine-0", "served_name": "m", "pid": 7, "arguments": ["vllm"], "socket": "/e.sock",
    "control_socket": None, "serves_undrafted": False, "run_folder": "/run", "log": "/e.log",
    "max_model_len": 2048, "revision": None, "num_restarts": 3,
}  # fmt: skip
"""As the first version offered it."""


def test_an_offer_without_newer_fields_is_read() -> None:
    offer = decode(
        json.dumps({"type": "offer", "version": VERSION, "pid": 1, "engines": [_OFFERED]}).encode()
    )
    assert isinstance(offer, Offer)
    (engine,) = offer.engines
    assert (engine.num_restarts, engine.num_planned_restarts, engine.num_without_alarm) == (
        3,
        None,
        3,
    )
    assert engine.version is None
    assert msgspec.structs.replace(engine, num_planned_restarts=2).num_without_alarm == 2


def test_newer_fields_do_not_keep_an_earlier_version_from_reading() -> None:
    class FirstOfferedEngine(msgspec.Struct, frozen=True):
        name: str
        num_restarts: int

    engine = msgspec.convert({**_OFFERED, "num_planned_restarts": 2}, OfferedEngine)
    packet = msgspec.json.encode(engine)
    assert b"num_planned_restarts" in packet
    assert msgspec.json.decode(packet, type=FirstOfferedEngine).num_restarts == 3
