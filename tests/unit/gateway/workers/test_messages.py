"""Encoding and decoding of the messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from paceline.runtime.gateway import FleetSettings, GatewaySettings, Replica
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.routing.breaker import BreakerState
from paceline.runtime.gateway.routing.stream_progress import ProgressReport, ReplicaProgress
from paceline.runtime.gateway.settings import KeySettings
from paceline.runtime.gateway.workers.messages import (
    CutHung,
    LineDecoder,
    MetricsReport,
    ReplicaList,
    Setup,
    ToParent,
    ToWorker,
    WorkerProgress,
    WorkerReport,
    encode_line,
)

R0 = Replica("r0", "/r0.sock", "tiny", "ready")


def test_messages_survive_encoding() -> None:
    keys = KeySettings(file=Path("/k"), admin_key_file=Path("/a"), metrics_need_key=True)
    settings = GatewaySettings(
        keys=keys,
        granted_fields=frozenset({"ignore_eos"}),
        fleet=FleetSettings(),
        workers=3,
        allowed_origins=frozenset({"https://chat.example"}),
    )
    replica = replace(R0, key="s3cret", control_socket=Path("/c"), max_in_flight=4)
    replica = replace(replica, other_models={"alias": 8, "lora": None})
    for message in (Setup(settings), ReplicaList(7, (replica, R0)), CutHung("r0")):
        assert LineDecoder(ToWorker).decode(encode_line(message)) == message
    metrics = MetricsReport(GatewayMetrics().samples())
    report = WorkerReport(in_flight={"r0": 1}, breakers={"r0": BreakerState.HALF_OPEN})
    progress = WorkerProgress(ProgressReport(1.5, {"r0": ReplicaProgress(num_first=2)}))
    for answer in (report, metrics, progress):
        assert LineDecoder(ToParent).decode(encode_line(answer)) == answer


def test_an_unknown_message_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        LineDecoder(ToParent).decode(b'{"type": "setup"}\n')
