"""Make the pictures of the live view, in a browser and a terminal, from a gateway under load.

usage: python -m browser.screenshots docs/images [--seconds 300] [--all-sizes] [--only top]

The gateway is `paceline serve` with one engine that has a real governor and scripted steps, and two
mock replicas of another server. Acceptance and load change every minute, and one replica fails.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
from chaos.fleet import FAST_DETECTION
from chaos.gateway_process import GatewayProcess, start_gateway
from chaos.monitoring.governed_engine import MODEL, Script
from PIL import Image

from browser.chromium import Chromium, running_chromium
from browser.chromium_program import find_chromium
from browser.terminal_picture import picture_of_top
from paceline.mock_vllm import MockVllm, MockVllmSettings

_REMOTE = MockVllmSettings(model="chat", tpot_ms=9, prefill_tokens_per_s=500, max_num_seqs=8)
_PHASES = (
    Script(acceptance=0.9, num_requests=4),
    Script(acceptance=0.35, num_requests=24),
    Script(acceptance=0.75, num_requests=8),
    Script(acceptance=0.9, num_requests=6),
)
_PHASE_S = 60
_PICTURES = ("dashboard", "top")
_SIZES = ((1280, 900, ""), (390, 844, "-narrow"))
_FAILURE_AT_S = 200


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--all-sizes", action="store_true", help="Also at 390 pixels.")
    parser.add_argument("--only", choices=_PICTURES, help="Not the pictures of the other view.")
    options = parser.parse_args()
    chosen = _PICTURES if options.only is None else (options.only,)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _PHASES[0].write(folder / "script.json")
        async with MockVllm(_REMOTE) as one, MockVllm(_REMOTE) as other:
            replicas = [{"url": one.url, "name": "chat-1"}, {"url": other.url, "name": "chat-2"}]
            program = f"from chaos.monitoring.serve_with_engine import serve; serve({name!r})"
            with start_gateway(
                folder, {**FAST_DETECTION, "replicas": replicas}, "--replicas", "0", program=program
            ) as gateway:
                try:
                    await asyncio.to_thread(gateway.wait_ready, 3, 60)
                    load = asyncio.create_task(
                        _send_load(gateway, other.url, folder, options.seconds)
                    )
                    # sleep: the picture shows this much time; no test reads it
                    await asyncio.sleep(options.seconds)
                    async with running_chromium(find_chromium(), folder / "profile") as browser:
                        if "dashboard" in chosen:
                            sizes = _SIZES[: 2 if options.all_sizes else 1]
                            await _take_dashboard(browser, gateway, options.folder, sizes)
                        if "top" in chosen:
                            picture = await picture_of_top(browser, gateway.admin_url, folder)
                            _write(options.folder / "top.png", picture)
                    load.cancel()
                    await asyncio.gather(load, return_exceptions=True)
                finally:
                    gateway.process.kill()


async def _send_load(gateway: GatewayProcess, failing_url: str, folder: Path, seconds: int) -> None:
    draws, start_s = random.Random(1), time.monotonic()
    has_failed = False
    async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as tasks:
        while True:
            at_s = time.monotonic() - start_s
            phase = int(at_s / _PHASE_S) % len(_PHASES)
            _PHASES[phase].write(folder / "script.json")
            if not has_failed and at_s > _FAILURE_AT_S * seconds / 300:
                has_failed = True
                faults = [{"kind": "status", "status": 500}]
                await http.post(f"{failing_url}/mock_vllm/faults", json=faults)
            for _ in range(1 + phase):
                model = draws.choice((MODEL, "chat", "chat"))
                tasks.create_task(_send(http, gateway.url, model, draws.randint(20, 120)))
            # sleep: a load for a picture, which no test reads
            await asyncio.sleep(0.5)


async def _send(http: aiohttp.ClientSession, url: str, model: str, max_tokens: int) -> None:
    body = {
        "model": model, "prompt": "x" * 50, "max_tokens": max_tokens, "stream": True,
        "ignore_eos": True,
    }  # fmt: skip
    with contextlib.suppress(aiohttp.ClientError):
        async with http.post(f"{url}/v1/completions", json=body) as answer:
            await answer.read()


async def _take_dashboard(
    browser: Chromium,
    gateway: GatewayProcess,
    target: Path,
    sizes: Sequence[tuple[int, int, str]],
) -> None:
    for is_dark in (False, True):
        for width, height, ending in sizes:
            async with browser.page() as page:
                await page.set_dark(is_dark)
                await page.open(f"{gateway.admin_url}/dashboard", width=width, height=height)
                await page.until("document.querySelectorAll('#replicas tr').length > 0")
                # sleep: for a picture, which no test reads
                await asyncio.sleep(1.5)
                name = f"live-view-{'dark' if is_dark else 'light'}{ending}.png"
                _write(target / name, await page.screenshot())


def _write(file: Path, picture: bytes) -> None:
    """Write a PNG with 256 colours, half the size; the rare ones (of states) are kept too."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    few = image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


if __name__ == "__main__":
    asyncio.run(main())
