"""Make the pictures of the live view, in a browser and a terminal, of a server under chats.

usage: paceline serve --replicas 2
       python -m browser.screenshots docs/images [--seconds 300] [--all-sizes] [--only top]

The load is that of the headline benchmark: chats and tasks that edit a text, half of them sampled.
The number of users changes every minute.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
from PIL import Image

from browser.chromium import Chromium, running_chromium
from browser.chromium_program import find_chromium
from browser.terminal_picture import picture_of_top
from paceline.foundation.servers.default_addresses import DEFAULT_ADMIN_URL, DEFAULT_URL

_PROMPTS = Path(__file__).parents[2] / "benchmarks" / "headline" / "prompts.jsonl"
_USERS = ((1, "chat"), (6, "chat"), (2, "edit"), (12, "chat"), (3, "edit"))
"""Users and what they ask for, by minute."""
_PHASE_S = 60
_PICTURES = ("dashboard", "top")
_SIZES = ((1280, 900, ""), (390, 844, "-narrow"))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--server", default=DEFAULT_URL, metavar="URL")
    parser.add_argument("--admin", default=DEFAULT_ADMIN_URL, metavar="URL")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--all-sizes", action="store_true", help="Also at 390 pixels.")
    parser.add_argument("--only", choices=_PICTURES, help="Not the pictures of the other view.")
    options = parser.parse_args()
    chosen = _PICTURES if options.only is None else (options.only,)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        load = asyncio.create_task(_send_load(options.server))
        # sleep: the picture shows this much time; no test reads it
        await asyncio.wait([load], timeout=options.seconds)
        async with running_chromium(find_chromium(), folder / "profile") as browser:
            if "dashboard" in chosen:
                sizes = _SIZES[: 2 if options.all_sizes else 1]
                await _take_dashboard(browser, options.admin, options.folder, sizes)
            if "top" in chosen:
                picture = await picture_of_top(browser, options.admin, folder)
                _write(options.folder / "top.png", picture)
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)


async def _send_load(url: str) -> None:
    start_s = time.monotonic()
    async with aiohttp.ClientSession(url, raise_for_status=True) as http:
        async with http.get("/v1/models") as answer:
            model = (await answer.json())["data"][0]["id"]
        most_users = max(users for users, _ in _USERS)
        async with asyncio.TaskGroup() as tasks:
            for user in range(most_users):
                tasks.create_task(_chat(http, model, user, start_s))


async def _chat(http: aiohttp.ClientSession, model: str, user: int, start_s: float) -> None:
    """One user, who waits in the minutes that have fewer."""
    draws = random.Random(user)
    texts = [json.loads(line) for line in _PROMPTS.read_text(encoding="utf-8").splitlines()]
    while True:
        minute = int((time.monotonic() - start_s) / _PHASE_S)
        users, task = _USERS[minute % len(_USERS)]
        if user >= users:
            # sleep: a load for a picture, which no test reads
            await asyncio.sleep(0.2)
            continue
        body: dict[str, Any] = {
            "model": model,
            "messages": draws.choice([text for text in texts if text["task"] == task])["messages"],
            "temperature": draws.choice((0.0, 0.7)),
            "max_tokens": 150,
            "stream": True,
        }
        with contextlib.suppress(aiohttp.ClientError):
            async with http.post("/v1/chat/completions", json=body) as answer:
                await answer.read()


async def _take_dashboard(
    browser: Chromium, admin_url: str, target: Path, sizes: Sequence[tuple[int, int, str]]
) -> None:
    for is_dark in (False, True):
        for width, height, ending in sizes:
            async with browser.page() as page:
                await page.set_dark(is_dark)
                await page.open(f"{admin_url}/dashboard", width=width, height=height)
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
