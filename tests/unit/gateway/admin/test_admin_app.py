"""The admin port over HTTP: governors, replicas, metrics, access."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from paceline.runtime.policy_registry import policy_names
from unit.gateway.conftest import Serve, Served, chat

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class FakeControl:
    """The engine's side of the control channel, with a governor that accepts changes."""

    socket: Path
    state: dict[str, object] = field(
        default_factory=lambda: {
            "policy": "goodput",
            "draft_length": 4,
            "ceiling": 8,
            "accepted_fraction": None,
            "accepted_tokens_total": 30,
            "drafted_tokens_total": 40,
            "goodput_tokens_per_s": 91.5,
        }
    )
    is_recording: bool = False
    commands: list[dict[str, object]] = field(default_factory=list)
    """On the recording."""
    mode: str = "obey"
    """obey, silent (no answer), invalid (an answer that is not JSON), close."""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[FakeControl]:
        server = await asyncio.start_unix_server(self._serve, str(self.socket))
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if self.mode == "silent":
                await reader.read()
            elif self.mode == "invalid":
                writer.write(b"not JSON\n")
            elif self.mode == "obey":
                writer.write(json.dumps(self._obey(json.loads(line))).encode() + b"\n")
            else:
                break
        writer.close()

    def _obey(self, request: dict[str, object]) -> dict[str, object]:
        if request["op"] == "record":
            return self._record(request)
        if request["op"] == "set":
            length = request.get("draft_length", 0)
            assert isinstance(length, int)
            if length > 8:
                return {"ok": False, "error": f"draft_length is {length}; it must be from 0 to 8"}
            self.state.update({key: value for key, value in request.items() if key != "op"})
        return {"ok": True, "state": self.state}

    def _record(self, request: dict[str, object]) -> dict[str, object]:
        self.commands.append(request)
        if request["action"] == "delete" and not self.is_recording:
            return {"ok": False, "error": "there is no recording"}
        if request["action"] != "status":
            self.is_recording = request["action"] == "start"
        return {"ok": True, "state": {"recording": self.is_recording}}


@asynccontextmanager
async def controlled(served: Served) -> AsyncIterator[FakeControl]:
    """Give the gateway's replica a control channel."""
    control = FakeControl(served.engine.socket.with_name("control.sock"))
    control.socket.unlink(missing_ok=True)
    async with control.listening():
        served.source.current = [
            replace(
                served.source.current[0],
                control_socket=control.socket,
                num_restarts=2,
                num_planned_restarts=1,
            )
        ]
        yield control


async def test_the_governor_is_read_and_changed(served: Served) -> None:
    async with controlled(served) as control:
        shown = await served.admin.get("/admin/governor")
        assert shown.json() == {"replicas": {"r0": control.state}}
        change = {"policy": "fixed", "draft_length": 3}
        answer = await served.admin.patch("/admin/governor", json=change)
        assert answer.status_code == 200
        state = answer.json()["replicas"]["r0"]
        assert (state["policy"], state["draft_length"]) == ("fixed", 3)
        assert control.state["draft_length"] == 3


async def test_a_whole_number_may_be_written_as_a_float(served: Served) -> None:
    async with controlled(served) as control:
        answer = await served.admin.patch("/admin/governor", json={"draft_length": 3.0})
        assert answer.status_code == 200
        assert control.state["draft_length"] == 3


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({}, None),
        ({"policy": "best"}, "policy"),
        ({"policy": None}, "policy"),
        ({"draft_length": -1}, "draft_length"),
        ({"draft_length": 1.5}, "draft_length"),
        ({"draft_length": True}, "draft_length"),
        ({"ceiling": "8"}, "ceiling"),
        ({"policy": "goodput", "draft_length": 3}, "draft_length"),
        ({"op": "set"}, "op"),
    ],
)
async def test_invalid_changes_get_a_400(
    served: Served, change: dict[str, object], param: str | None
) -> None:
    async with controlled(served) as control:
        before = dict(control.state)
        answer = await served.admin.patch("/admin/governor", json=change)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
        assert control.state == before


async def test_every_policy_of_the_governor_can_be_set(served: Served) -> None:
    async with controlled(served) as control:
        for name in policy_names():
            answer = await served.admin.patch("/admin/governor", json={"policy": name})
            assert (answer.status_code, control.state["policy"]) == (200, name)
        refused = await served.admin.patch("/admin/governor", json={"policy": "best"})
        assert ", ".join(policy_names()) in refused.json()["error"]["message"]


async def test_a_change_that_the_engine_refuses_gets_a_400_with_its_reason(served: Served) -> None:
    async with controlled(served):
        answer = await served.admin.patch("/admin/governor", json={"draft_length": 9})
        assert answer.status_code == 400
        assert "r0: draft_length is 9; it must be from 0 to 8" in answer.json()["error"]["message"]


@pytest.mark.parametrize("mode", ["silent", "invalid", "close"])
async def test_a_failing_control_channel_gets_a_503(serve: Serve, mode: str) -> None:
    async with serve(control_timeout_s=0.5) as served, controlled(served) as control:
        control.mode = mode
        answer = await served.admin.patch("/admin/governor", json={"draft_length": 1})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        shown = await served.admin.get("/admin/governor")
        assert shown.status_code == 200
        assert set(shown.json()["replicas"]["r0"]) == {"error"}
        assert (await served.admin.get("/metrics")).status_code == 200


async def test_a_replica_without_a_control_channel_is_reported_as_such(served: Served) -> None:
    shown = await served.admin.get("/admin/governor")
    assert shown.json() == {"replicas": {"r0": {"error": "the replica has no control channel"}}}
    answer = await served.admin.patch("/admin/governor", json={"draft_length": 1})
    assert answer.status_code == 503


async def test_a_change_without_a_name_is_for_all_replicas_with_a_governor(served: Served) -> None:
    """Remote replicas have no governor; their presence is not an error."""
    async with controlled(served) as control:
        served.source.current = [
            *served.source.current,
            replace(served.source.current[0], name="remote", control_socket=None),
        ]
        answer = await served.admin.patch("/admin/governor", json={"draft_length": 1})
        assert (answer.status_code, list(answer.json()["replicas"])) == (200, ["r0"])
        assert control.state["draft_length"] == 1


async def test_a_request_can_name_one_replica(served: Served) -> None:
    async with controlled(served) as control:
        served.source.current = [
            *served.source.current,
            replace(served.source.current[0], name="r1"),
        ]
        one = await served.admin.get("/admin/governor", params={"replica": "r1"})
        assert list(one.json()["replicas"]) == ["r1"]
        missing = await served.admin.patch("/admin/governor?replica=r9", json={"ceiling": 2})
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "replica_not_found")
        assert control.state["ceiling"] == 8


async def test_replicas_are_listed_with_their_load(served: Served) -> None:
    served.engine.mode = "stall"
    async with (
        controlled(served),
        served.http.stream("POST", "/v1/chat/completions", json=chat(stream=True)) as answer,
    ):
        assert answer.status_code == 200
        (replica,) = (await served.admin.get("/admin/replicas")).json()["replicas"]
    del replica["load_failure"]  # the fake engine has no metrics and may not have been polled yet
    assert replica == {
        "name": "r0",
        "state": "ready",
        "model": "tiny",
        "other_models": [],
        "in_flight": 1,
        "address_kind": "unix",
        "has_governor": True,
        "max_model_len": 2048,
        "restarts": 2,
        "planned_restarts": 1,
        "reason": None,
        "max_in_flight": None,
        "max_tokens_in_flight": None,
        "origin": "local",
        "entry": None,
        "url": None,
        "dialect": "vllm",
        "drafts": False,
        "draft": None,
        "honours_draft_caps": False,
        "revision": None,
        "version": None,
        "draining": False,
        "last_poll_age_s": None,
        "load": None,
        "accepted_fraction": None,
        "seconds_per_token": None,
    }


async def test_metrics_show_replicas_and_governors(served: Served) -> None:
    async with controlled(served):
        answer = await served.admin.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        (sample.name, sample.labels.get("replica")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["paceline_replica_state", "r0"] == 2
    assert samples["paceline_replica_restarts_total", "r0"] == 2
    assert samples["paceline_replica_unplanned_restarts_total", "r0"] == 1
    assert samples["paceline_requests_in_flight", "r0"] == 0
    assert samples["paceline_governor_draft_length", "r0"] == 4
    assert samples["paceline_governor_accepted_tokens_total", "r0"] == 30
    assert samples["paceline_governor_drafted_tokens_total", "r0"] == 40
    assert samples["paceline_governor_goodput_tokens_per_second", "r0"] == 91.5
    assert ("paceline_governor_accepted_fraction", "r0") not in samples  # unknown, so absent
    families = {family.name for family in text_string_to_metric_families(answer.text)}
    assert all(name.startswith("paceline_") for name in families)
    assert "paceline_governor_accepted_fraction" in families


async def test_streams_are_timed(served: Served) -> None:
    """Of two streams, one carries its usage."""

    async def count(name: str) -> float:
        text = (await served.admin.get("/metrics")).text
        (line,) = (line for line in text.splitlines() if line.startswith(f"paceline_{name}_count"))
        return float(line.split()[-1])

    names = ("time_to_first_token_seconds", "time_per_output_token_seconds", "queue_seconds")
    before = [await count(name) for name in names]
    usage = {"include_usage": True}
    path = "/v1/chat/completions"
    await served.http.post(path, json=chat(stream=True, stream_options=usage))
    await served.http.post(path, json=chat(stream=True))
    await served.http.post(path, json=chat())
    after = [await count(name) for name in names]
    assert [b - a for a, b in zip(before, after, strict=True)] == [2, 1, 3]
    assert await served.outcomes() == {"completed": 3}


@pytest.mark.parametrize("path", ["/admin/variants", "/v1/models", "/health", "/dashboards"])
async def test_other_admin_paths_get_a_404(served: Served, path: str) -> None:
    assert (await served.admin.get(path)).status_code == 404


async def test_other_admin_methods_get_a_405(served: Served) -> None:
    answer = await served.admin.post("/admin/governor", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, PATCH")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("127.0.0.1:80", 200), ("[::1]:80", 200), ("10.0.0.7", 200),
        ("evil.example", 403), ("localhost.evil.example:8001", 403), ("", 403),
    ],
)  # fmt: skip
async def test_foreign_host_headers_are_refused(served: Served, host: str, status: int) -> None:
    answer = await served.admin.get("/admin/replicas", headers={"host": host})
    assert answer.status_code == status


async def test_a_change_must_be_sent_as_json(served: Served) -> None:
    """A web page of another origin cannot send JSON without a CORS preflight."""
    answer = await served.admin.patch(
        "/admin/governor", content=b'{"draft_length":1}', headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 415
