"""`FaultProxy`: a reverse proxy in front of a deployment that injects one fault at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from aiohttp import web

from paceline.testing.fault_injection.fault import CUT, NO_FAULT, Call, Fault, Reply

_HOP_HEADERS = ("host", "content-length", "transfer-encoding", "connection")
_STREAM = "text/event-stream"
_END = b"\n\n"
_DATA = b"data: "


class FaultProxy:
    """Ports in front of a data port and, if given, an admin port; an async context manager."""

    def __init__(self, url: str, admin_url: str | None = None) -> None:
        self._upstreams = {False: url, True: admin_url}
        self._ports: dict[bool, int] = {}
        self._fault = NO_FAULT
        self._memory: dict[str, Any] = {}
        self._num_calls = 0
        self._num_open = 0
        self._known_key: str | None = None
        self._known_model: str | None = None
        self._abandoned: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Of the data port."""
        return f"http://127.0.0.1:{self._ports[False]}"

    @property
    def admin_url(self) -> str | None:
        """Of the admin port; None without one."""
        return f"http://127.0.0.1:{self._ports[True]}" if True in self._ports else None

    def inject(self, fault: Fault = NO_FAULT) -> None:
        """Replace the fault; without one the proxy changes nothing.

        Answers that a fault kept running without a client end here.
        """
        for task in self._abandoned:
            task.cancel()
        self._fault, self._memory, self._num_calls = fault, {}, 0

    async def __aenter__(self) -> FaultProxy:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), auto_decompress=False
        )
        self._runners: list[web.AppRunner] = []
        for is_admin, upstream in self._upstreams.items():
            if upstream is not None:
                await self._listen(is_admin)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._abandoned:
            task.cancel()
        for runner in self._runners:
            await runner.cleanup()
        await self._session.close()

    async def _listen(self, is_admin: bool) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._handle(request, is_admin)

        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._ports[is_admin] = runner.addresses[0][1]

    async def _handle(self, request: web.Request, is_admin: bool) -> web.StreamResponse:
        self._num_open += 1
        try:
            fault, memory, number = self._fault, self._memory, self._num_calls
            self._num_calls += 1
            headers = {
                name.lower(): value
                for name, value in request.headers.items()
                if name.lower() not in _HOP_HEADERS
            }
            call = Call(
                request.method, request.path_qs, headers, await request.read(), is_admin,
                number, self._num_open, self._known_key, self._known_model, memory,
            )  # fmt: skip
            changed = fault.on_call(call)
            if isinstance(changed, Reply):
                return _respond(changed)
            return await self._forward(request, changed, fault)
        finally:
            self._num_open -= 1

    async def _forward(self, request: web.Request, call: Call, fault: Fault) -> web.StreamResponse:
        if call.generates and fault.first_delay_s:
            await asyncio.sleep(fault.first_delay_s)
        base = self._upstreams[call.is_admin]
        upstream = await self._session.request(
            call.method, f"{base}{call.path}", data=call.body or None, headers=call.headers,
            allow_redirects=False,
        )  # fmt: skip
        if upstream.status == 200 and call.generates:
            self._known_key = call.headers.get("authorization")
            self._known_model = (call.fields() or {}).get("model")
        if upstream.content_type != _STREAM:
            async with upstream:
                headers = {name.lower(): value for name, value in upstream.headers.items()}
                for name in _HOP_HEADERS:
                    headers.pop(name, None)
                reply = Reply(upstream.status, headers, await upstream.read())
            return _respond(fault.on_reply(call, reply))
        return await self._relay(request, call, fault, upstream)

    async def _relay(
        self, request: web.Request, call: Call, fault: Fault, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": fault.content_type or _STREAM})
        try:
            await response.prepare(request)
            pending = b""
            async for data in upstream.content.iter_any():
                *events, pending = (pending + data).split(_END)
                for event in events:
                    if not await _send(response, call, fault, event):
                        assert request.transport is not None
                        request.transport.abort()
                        return response
            await response.write_eof()
        except asyncio.CancelledError:
            _count_disconnect(call)
            if fault.hides_disconnect:
                self._read_on(upstream)
            raise
        except ConnectionError:  # the client is gone, or the deployment broke off
            assert request.transport is not None
            request.transport.abort()
            _count_disconnect(call)
            if fault.hides_disconnect:
                self._read_on(upstream)
        finally:
            if not fault.hides_disconnect:
                upstream.close()
        return response

    def _read_on(self, upstream: aiohttp.ClientResponse) -> None:
        """Read the answer to its end, for nobody."""

        async def read() -> None:
            try:
                async for _ in upstream.content.iter_any():
                    pass
            finally:
                upstream.close()

        task = asyncio.get_running_loop().create_task(read())
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)


async def _send(response: web.StreamResponse, call: Call, fault: Fault, event: bytes) -> bool:
    """Send what the fault makes of an event; False if it breaks the connection."""
    if fault.event_delay_s:
        await asyncio.sleep(fault.event_delay_s)
    for one in fault.on_event(call, event.removeprefix(_DATA)):
        if one == CUT:
            return False
        await response.write(_DATA + one + _END)
    return True


def _count_disconnect(call: Call) -> None:
    """Remember that a stream ended before its answer did."""
    call.memory["num_disconnected"] = call.memory.get("num_disconnected", 0) + 1


def _respond(reply: Reply) -> web.Response:
    return web.Response(status=reply.status, headers=reply.headers, body=reply.body)
