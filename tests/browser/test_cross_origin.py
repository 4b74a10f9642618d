"""A chat page of another origin uses the data port from headless Chromium, if it is allowed to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from polling import until
from unit.gateway.conftest import Serve, chat

from browser.chromium import Page

pytestmark = pytest.mark.asyncio(loop_scope="module")

POST = """(async () => {
  const answer = await fetch(URL, {method: 'POST', body: BODY, headers:
    {'content-type': 'application/json', 'authorization': 'Bearer x', 'x-stainless-lang': 'js'}});
  return [answer.status, answer.headers.get('x-request-id') !== null, await answer.text()];
})()"""


FIRST_EVENT = """(async () => {
  const answer = await fetch(URL, {method: 'POST', body: BODY, headers:
    {'content-type': 'application/json', 'authorization': 'Bearer x'}});
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (!text.includes('\\n\\n')) text += (await reader.read()).value;
  await reader.cancel();
  return text;
})()"""


@asynccontextmanager
async def page_server() -> AsyncIterator[str]:
    """A web server with an empty page; its origin."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="<title>chat</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def post(url: str, script: str = POST, **changes: object) -> str:
    body = json.dumps(json.dumps(chat(**changes)))
    return script.replace("URL", json.dumps(f"{url}/v1/chat/completions")).replace("BODY", body)


@pytest.mark.parametrize("allows_all", [False, True])
async def test_an_allowed_page_sends_requests_and_reads_answers(
    page: Page, serve: Serve, allows_all: bool
) -> None:
    async with page_server() as origin:
        allowed = frozenset({"*" if allows_all else origin})
        async with serve(allowed_origins=allowed) as served:
            await page.open(origin)
            status, has_id, text = await page.evaluate(post(served.gateway.url))
            assert (status, has_id) == (200, True)
            assert served.engine.text in json.loads(text)["choices"][0]["message"]["content"]
            status, _, text = await page.evaluate(post(served.gateway.url, stream=True))
            assert status == 200
            assert text.endswith("data: [DONE]\n\n")
            status, _, text = await page.evaluate(post(served.gateway.url, temperature=-1))
            assert (status, json.loads(text)["error"]["param"]) == (400, "temperature")
            url = json.dumps(f"{served.gateway.url}/v1/models")
            models = await page.evaluate(f"fetch({url}).then((answer) => answer.json())")
            assert [one["id"] for one in models["data"]] == ["tiny"]


async def test_an_allowed_page_reads_a_stream_while_the_engine_computes(
    page: Page, serve: Serve
) -> None:
    """The engine sends one token and then nothing; the page reads it, and leaves."""
    async with page_server() as origin, serve(allowed_origins=frozenset({origin})) as served:
        served.engine.mode = "stall"
        await page.open(origin)
        event = await page.evaluate(post(served.gateway.url, FIRST_EVENT, stream=True))
        first = json.loads(event.split("\n\n")[0].removeprefix("data: "))
        assert first["choices"][0]["delta"]["content"] == served.engine.tokens[0]
        await until(lambda: served.engine.num_aborted == 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_browser_keeps_other_pages_out(page: Page, serve: Serve, stream: bool) -> None:
    """Without the setting, and where it lists another page."""
    for allowed in (frozenset[str](), frozenset({"https://chat.example"})):
        async with page_server() as origin, serve(allowed_origins=allowed) as served:
            await page.open(origin)
            sent = post(served.gateway.url, stream=stream)
            script = f"{sent}.then(() => 'sent', (error) => error.name)"
            assert await page.evaluate(script) == "TypeError"
            assert served.engine.num_begun == 0
            assert any("CORS policy" in problem for problem in page.problems)
            page.problems.clear()
