"""The live view over HTTP: pages, headers, documents, streams and their bounds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest

from paceline.runtime.gateway.live_view import live_view, routes
from paceline.runtime.gateway.live_view.history import History
from paceline.runtime.gateway.live_view.live_view import MAX_VIEWERS
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.workers.pool import WorkerPool
from unit.gateway.admin.test_admin_app import controlled
from unit.gateway.conftest import Serve, Served, chat, until
from unit.gateway.workers.conftest import workers

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENTS = "/dashboard/events"


class Stream:
    """A client of the events."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()

    async def next(self) -> tuple[str, str, dict[str, Any]]:
        """Name, id and data of the next event."""
        fields = {}
        async with asyncio.timeout(60):
            async for line in self._lines:
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    return fields["event"], fields["id"], json.loads(fields["data"])
        raise EOFError

    async def read_to_end(self) -> None:
        with contextlib.suppress(EOFError, httpx.RemoteProtocolError):
            while True:
                await self.next()


@contextlib.asynccontextmanager
async def watching(served: Served, **options: Any) -> AsyncIterator[Stream]:
    async with served.admin.stream("GET", EVENTS, **options) as answer:
        yield Stream(answer)


async def test_the_root_of_the_admin_port_leads_to_the_dashboard(served: Served) -> None:
    for path in ("/", "/dashboard/", "/dashboard/login"):
        answer = await served.admin.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard"), path
    page = await served.admin.get("/dashboard")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "Paceline" in page.text


async def test_every_file_that_the_page_names_is_served(served: Served) -> None:
    page = (await served.admin.get("/dashboard")).text
    named = set(re.findall(r'(?:href|src)="([^"]+)"', page))
    assert named == {"/dashboard/icon.svg", "/dashboard/style.css", "/dashboard/dashboard.js"}
    types = {path: (await served.admin.get(path)).headers["content-type"] for path in named}
    assert types["/dashboard/dashboard.js"] == "text/javascript; charset=utf-8"
    assert types["/dashboard/style.css"] == "text/css; charset=utf-8"
    script = (await served.admin.get("/dashboard/dashboard.js")).text
    imported = re.findall(r'from "[.](/.+)"', script)
    assert imported == ["/charts.js", "/events.js", "/formats.js", "/refusal.js"]
    for path in imported:
        assert (await served.admin.get(f"/dashboard{path}")).status_code == 200


async def test_nothing_of_the_page_is_inline_or_from_elsewhere(served: Served) -> None:
    inline = re.compile(r"https?://|<style| style=|<script>| on\w+=|innerHTML")
    scripts = ("dashboard", "charts", "events", "formats")
    for path in ("", "/style.css", *(f"/{name}.js" for name in scripts)):
        answer = await served.admin.get(f"/dashboard{path}")
        assert answer.status_code == 200
        assert not inline.search(answer.text.replace("http://www.w3.org/2000/svg", "")), path


@pytest.mark.parametrize("path", ["/", "/dashboard", "/dashboard/state", "/dashboard/style.css"])
async def test_every_answer_restricts_what_the_browser_runs(served: Served, path: str) -> None:
    headers = (await served.admin.get(path)).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/dashboard/secret", 404),
        ("GET", "/dashboards", 404),
        ("POST", "/dashboard", 405),
        ("HEAD", EVENTS, 405),
        ("GET", "/dashboard/logout", 405),
        ("DELETE", "/dashboard/state", 405),
    ],
)
async def test_other_paths_and_methods_are_refused(
    served: Served, method: str, path: str, status: int
) -> None:
    assert (await served.admin.request(method, path)).status_code == status


@pytest.mark.parametrize("path", ["/", "/dashboard", "/dashboard/state", EVENTS])
async def test_a_page_under_another_name_gets_nothing(served: Served, path: str) -> None:
    """DNS rebinding."""
    answer = await served.admin.get(path, headers={"host": "evil.example:8001"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "host_not_allowed")


@pytest.mark.parametrize("path", ["/dashboard/state", EVENTS])
async def test_other_sites_cannot_open_streams(served: Served, path: str) -> None:
    """They could not read them, but take the places of viewers."""
    for site in ("cross-site", "same-site"):
        answer = await served.admin.get(path, headers={"sec-fetch-site": site})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
    foreign = await served.admin.get(path, headers={"origin": "http://127.0.0.1:1"})
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "cross_site")
    allowed = {"sec-fetch-site": "same-origin", "origin": served.gateway.admin_url}
    assert (await served.admin.get("/dashboard/state", headers=allowed)).status_code == 200


async def test_the_document_shows_the_replica_its_governor_and_the_traffic(served: Served) -> None:
    async with controlled(served) as control:
        control.state["steps_total"] = 5
        await (await served.http.post("/v1/chat/completions", json=chat(stream=True))).aread()

        async def shown() -> dict[str, Any] | None:
            latest = (await served.admin.get("/dashboard/state")).json()["latest"]
            (replica,) = latest["replicas"]
            is_whole = replica["governor"] and latest["traffic"]["ttft_p50_ms"]
            return replica if is_whole else None

        replica = await until(shown)
    assert replica is not None
    assert (replica["name"], replica["state"], replica["breaker"]) == ("r0", "ready", "closed")
    assert (replica["draft_length"], replica["governor"]["ceiling"]) == (4, 8)
    assert replica["governor"]["policy"] == "goodput"
    assert replica["in_flight"] == 0


async def test_a_stream_begins_with_the_history_and_goes_on_without_a_gap(served: Served) -> None:
    async with watching(served) as stream:
        assert stream.answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        name, event_id, history = await stream.next()
        assert name == "history"
        assert event_id.endswith(f"-{history['number']}")
        for number in range(history["number"] + 1, history["number"] + 3):
            name, event_id, update = await stream.next()
            assert (name, update["number"]) == ("update", number)
            assert event_id.endswith(f"-{number}")


async def test_after_a_reconnect_nothing_is_missing_and_nothing_is_double(served: Served) -> None:
    async with watching(served) as stream:
        await stream.next()
        _, event_id, update = await stream.next()
    async with watching(served, headers={"last-event-id": event_id}) as stream:
        _, new_id, history = await stream.next()
    times = history["points"]["at_s"]
    assert times == sorted(set(times))
    assert update["latest"]["at_s"] in times
    assert history["number"] >= update["number"]
    assert new_id.split("-")[0] == event_id.split("-")[0]


async def test_a_governor_that_does_not_answer_stops_no_snapshot(served: Served) -> None:
    async with controlled(served) as control, watching(served) as stream:
        control.mode = "silent"
        (_, _, history), (_, _, update) = await stream.next(), await stream.next()
        assert update["number"] == history["number"] + 1
        _, _, update = await stream.next()
        assert update["latest"]["replicas"][0]["governor"] is None


async def test_a_breaker_that_opens_is_an_event(serve: Serve) -> None:
    async with serve() as served, watching(served) as stream:
        await stream.next()
        served.engine.mode = "dead"
        served.source.current = [replace(served.replicas[0], address="/nowhere.sock")]
        await served.http.post("/v1/chat/completions", json=chat())
        await served.gateway._live.take_snapshot()  # it opens for less than a second
        found: list[dict[str, Any]] = []
        while not found:
            _, _, update = await stream.next()
            found = [event for event in update["events"] if event["kind"] == "breaker"]
        (event,) = found
        assert (event["replica"], event["text"]) == ("r0", "circuit breaker closed → open")
        assert event["is_problem"] is True


async def test_one_viewer_too_many_is_refused_and_a_place_is_free_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_view, "MAX_VIEWERS", 2)
    assert MAX_VIEWERS == 32
    async with watching(served) as first, watching(served) as second:
        await first.next()
        await second.next()
        refused = await served.admin.get(EVENTS)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert refused.json()["error"]["code"] == "too_many_viewers"
        assert (await served.admin.get("/dashboard/state")).status_code == 200
    live = served.gateway._live
    await until(lambda: live.num_viewers == 0)


async def test_a_viewer_that_does_not_read_is_dropped(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history of many replicas is larger than all buffers on the way."""
    monkeypatch.setattr(routes, "LIVE_VIEW_SEND_TIMEOUT_S", 0.5)
    async with serve() as served:
        live = served.gateway._live
        served.source.current = many_replicas(served, 300)
        while len(live._history.points) < 100:
            await live.take_snapshot()
        host, port = served.gateway.admin_host, served.gateway.admin_port
        reader, writer = await asyncio.open_connection(host, port, limit=1024)
        writer.write(f"GET {EVENTS} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        assert b"200 OK" in await reader.readline()
        assert live.num_viewers == 1
        for _ in range(10):
            await live.take_snapshot()
        await until(lambda: live.num_viewers == 0, within_s=60)
        writer.close()


async def test_a_viewer_that_is_too_far_behind_is_dropped(served: Served) -> None:
    """What it has not read is not kept for it."""
    live = served.gateway._live
    stream = live.stream()
    await anext(stream)
    for _ in range(4):
        await live.take_snapshot()
    several = await anext(stream)
    assert several.count(b"event: update") >= 4
    for _ in range(7):
        await live.take_snapshot()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert live.num_viewers == 0


async def test_fifty_replicas_are_all_in_each_update(serve: Serve) -> None:
    async with serve() as served:
        served.source.current = many_replicas(served, 50)
        await served.gateway._live.take_snapshot()
        async with watching(served) as stream:
            _, _, history = await stream.next()
            _, _, update = await stream.next()
    assert len(history["points"]["replicas"]) == 50
    assert {view["name"] for view in update["latest"]["replicas"]} == set(
        history["points"]["replicas"]
    )


def many_replicas(served: Served, number: int) -> Sequence[Replica]:
    return [replace(served.replicas[0], name=f"replica-{i}") for i in range(number)]


async def test_streams_end_at_once_when_the_gateway_stops(serve: Serve) -> None:
    async with contextlib.AsyncExitStack() as stack:
        served = await stack.enter_async_context(serve())
        async with (
            httpx.AsyncClient(base_url=served.gateway.admin_url, timeout=60) as other,
            other.stream("GET", EVENTS) as answer,
        ):
            stream = Stream(answer)
            await stream.next()
            reading = asyncio.create_task(stream.read_to_end())
            started_at_s = time.monotonic()
            await stack.aclose()
            await asyncio.wait_for(reading, 60)
        assert time.monotonic() - started_at_s < 30


async def test_a_gateway_that_hands_over_sends_its_viewers_to_the_next_one(serve: Serve) -> None:
    async with serve() as served, watching(served) as stream:
        await stream.next()
        served.gateway.stop_accepting()
        await asyncio.wait_for(stream.read_to_end(), 60)


async def test_a_snapshot_that_fails_does_not_end_the_view(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve() as served, watching(served) as stream:
        await stream.next()
        live = served.gateway._live
        make = live._maker.make
        monkeypatch.setattr(live._maker, "make", lambda gathered: 1 / 0)
        await until(lambda: "failed to take a snapshot" in caplog.text)
        monkeypatch.setattr(live._maker, "make", make)
        assert (await stream.next())[0] == "update"


async def test_a_snapshot_that_cannot_be_encoded_leaves_no_gap(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as served, watching(served) as stream:
        _, _, history = await stream.next()
        live = served.gateway._live
        monkeypatch.setattr(live_view, "render_update", lambda update: {"name": "\ud800"})
        with pytest.raises(UnicodeEncodeError):
            await live.take_snapshot()
        monkeypatch.undo()
        _, _, update = await stream.next()
        assert update["number"] == history["number"] + 1


async def test_without_a_snapshot_viewers_are_refused_after_a_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_view, "LIVE_VIEW_FIRST_S", 0.05)
    async with serve() as served:
        live = served.gateway._live
        monkeypatch.setattr(live._maker, "make", lambda gathered: 1 / 0)
        live._history.last = None
        for path in ("/dashboard/state", EVENTS):
            async with asyncio.timeout(60):
                refused = await served.admin.get(path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_snapshot")
        assert live.num_viewers == 0


async def test_the_history_of_one_snapshot_is_encoded_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = []
    render = live_view.render_history

    def counting(history: History) -> dict[str, Any]:
        rendered = render(history)
        numbers.append(rendered["number"])
        return rendered

    monkeypatch.setattr(live_view, "render_history", counting)
    async with serve() as served:
        live = served.gateway._live
        first = await live.document()
        assert await live.document() is first
        await live.take_snapshot()
        stream = live.stream()
        assert first not in await anext(stream)
        await stream.aclose()
    assert len(numbers) == len(set(numbers)) == 2


async def test_a_hung_worker_does_not_slow_the_snapshots(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scrape of /metrics waits for it, here ten minutes. What it has counted stays in view."""
    async with serve(workers=2) as served:
        for _ in range(8):
            async with httpx.AsyncClient(base_url=served.gateway.url, timeout=60) as client:
                await client.post("/v1/chat/completions", json=chat(stream=True))
        live = served.gateway._live
        readings = live._maker._window._readings
        await until(lambda: readings[-1].num_ended - readings[0].num_ended == 8)
        monkeypatch.setattr(WorkerPool.worker_samples, "__defaults__", (600.0,))
        hanging, _ = workers()
        hanging.suspend()
        try:
            async with asyncio.timeout(60):
                await live.take_snapshot()
        finally:
            hanging.resume()
        assert readings[-1].num_ended - readings[0].num_ended == 8


async def test_the_requests_of_all_worker_processes_count(serve: Serve) -> None:
    async with serve(workers=2) as served:
        for _ in range(8):  # on new connections, which both workers accept
            async with httpx.AsyncClient(base_url=served.gateway.url, timeout=60) as client:
                await client.post("/v1/chat/completions", json=chat(stream=True))
        readings = served.gateway._live._maker._window._readings
        await until(lambda: readings[-1].num_ended - readings[0].num_ended == 8)
        latest = (await served.admin.get("/dashboard/state")).json()["latest"]
        assert latest["traffic"]["ttft_p50_ms"] > 0
