"""Drive headless Chromium over its DevTools protocol: pages, keys, screenshots, what it refused.

`Chromium` is one browser process with a profile of its own; `Page` is one tab of it.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from browser.chromium_program import ChromiumProgram

_START_TIMEOUT_S = 60.0
_CALL_TIMEOUT_S = 60.0
_FLAGS = (
    "--headless",
    "--no-sandbox",  # root has none, and the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class PageError(Exception):
    """A script in the page threw an exception."""


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read())
        self.requests: list[str] = []
        """The URLs that the page asked for."""
        self.problems: list[str] = []
        """Exceptions, errors of the console and what the content security policy refused."""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol; its result."""
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(_CALL_TIMEOUT_S):
            message = await answer
        if "error" in message:
            raise PageError(f"{method}: {message['error']['message']}")
        return message["result"]

    async def prepare(self) -> None:
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.call(f"{domain}.enable")

    async def open(self, url: str, *, width: int = 1280, height: int = 900) -> None:
        """Go to a page; returns when it is loaded."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def set_dark(self, is_dark: bool) -> None:
        """Set what the page gets for prefers-color-scheme."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def set_offline(self, is_offline: bool) -> None:
        """Cut or restore the page's network."""
        await self.call(
            "Network.emulateNetworkConditions",
            offline=is_offline, latency=0, downloadThroughput=-1, uploadThroughput=-1,
        )  # fmt: skip

    async def evaluate(self, script: str) -> Any:
        """The value of an expression in the page, as JSON. Raises `PageError` if it throws."""
        result = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise PageError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    async def text(self, selector: str) -> str:
        """The visible text of an element."""
        text = await self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
        assert isinstance(text, str)
        return text

    async def until(self, condition: str, within_s: float = 60.0) -> None:
        """Wait until the expression is true. TimeoutError, with the page, after `within_s`."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    try:
                        if await self.evaluate(condition):
                            return
                    except PageError:
                        pass  # a page that is being replaced has no document
                    # sleep: the pause between two looks decides nothing
                    await asyncio.sleep(0.05)
        except TimeoutError:
            shown = await self.evaluate("document.body.innerText.slice(0, 1500)")
            raise TimeoutError(f"never true: {condition}\nThe page shows: {shown}") from None

    async def press(self, key: str, *, code: int = 0, text: str = "", modifiers: int = 0) -> None:
        """Press a key, such as Tab (code 9), ArrowLeft (37), Enter (13, text "\\r")."""
        for kind in ("keyDown", "keyUp"):
            given = {"text": text} if text and kind == "keyDown" else {}
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind, key=key, code=key, windowsVirtualKeyCode=code, modifiers=modifiers,
                **given,
            )  # fmt: skip

    async def type(self, text: str) -> None:
        """Type into the element that has the focus."""
        await self.call("Input.insertText", text=text)

    async def screenshot(self, *, whole_page: bool = True) -> bytes:
        """The page as a PNG."""
        result = await self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole_page
        )
        return base64.b64decode(result["data"])

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            received = json.loads(message.data)
            if "id" in received:
                self._answers.pop(received["id"]).set_result(received)
            else:
                self._note(received["method"], received["params"])

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] == "error":
            self.problems.append(json.dumps(parameters["args"])[:500])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            entry = parameters["entry"]
            self.problems.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")


class Chromium:
    """A running browser."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http = http
        self._address = address

    @asynccontextmanager
    async def page(self) -> AsyncIterator[Page]:
        """A new tab."""
        async with self._http.put(f"http://{self._address}/json/new?about:blank") as answer:
            target = await answer.json(content_type=None)
        socket = await self._http.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
        page = Page(socket)
        try:
            await page.prepare()
            yield page
        finally:
            await page.close()
            async with self._http.get(f"http://{self._address}/json/close/{target['id']}"):
                pass


@asynccontextmanager
async def running_chromium(program: ChromiumProgram, folder: Path) -> AsyncIterator[Chromium]:
    """Start the browser, with its profile in `folder`; end it with the block."""
    process = await asyncio.create_subprocess_exec(
        program.path, *_FLAGS, f"--user-data-dir={folder}", "about:blank",
        env={**os.environ, **program.environment},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        port_file = folder / "DevToolsActivePort"
        async with asyncio.timeout(_START_TIMEOUT_S):
            while not port_file.exists() or not port_file.read_text().strip():
                if process.returncode is not None:
                    raise RuntimeError(f"Chromium ended with {process.returncode}")
                # sleep: the pause between two looks decides nothing
                await asyncio.sleep(0.05)
        port = port_file.read_text().splitlines()[0]
        async with aiohttp.ClientSession() as http:
            yield Chromium(http, f"127.0.0.1:{port}")
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
