"""The live view in headless Chromium, in front of a real gateway."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.gateway.admin.test_admin_app import FakeControl, controlled
from unit.gateway.conftest import Serve, Served, chat, until
from unit.gateway.keys.records import SECRET, record

from browser.chromium import Page
from paceline.runtime.gateway.keys.file import change_text
from paceline.runtime.gateway.keys.record import join_key, render_line
from paceline.runtime.gateway.keys.roles import Role
from paceline.runtime.gateway.live_view import live_view
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.settings import KeySettings

pytestmark = pytest.mark.asyncio(loop_scope="module")

HAS_FOCUS = "document.activeElement?.id === 'key'"
"""What is typed before goes nowhere, on a page that is still being shown."""
IS_LIVE = "document.querySelector('#status')?.classList.contains('live')"
NUM_DRAWN = """(document.querySelectorAll('.plot')[5]?.querySelector('path.line')
?.getAttribute('d').match(/[ML]/g) ?? []).length"""
NUM_ROWS = "document.querySelectorAll('#replicas tr').length"
WIDE, NARROW = 1280, 390


@contextlib.asynccontextmanager
async def opened(
    page: Page, served: Served, width: int = WIDE, height: int = 900
) -> AsyncIterator[FakeControl]:
    """The dashboard of a gateway whose replica has a governor; it shows data."""
    async with controlled(served) as control:
        control.state.update(
            settled_length=4, steps_total=1, draft_length_changes_total=0, last_change_reason=None
        )
        await served.gateway._live.take_snapshot()
        await page.open(f"{served.gateway.admin_url}/dashboard", width=width, height=height)
        await page.until(IS_LIVE)
        yield control


async def two_updates_shown(page: Page, served: Served) -> None:
    """Wait until the page has drawn two more updates."""
    live = served.gateway._live
    assert live._history.last is not None
    for _ in range(2):
        await live.take_snapshot()
    num_drawn = live._history.last.number - 1  # the first value of a rate comes with the second
    await page.until(f"{NUM_DRAWN} >= {num_drawn}")


async def press_tab_until(page: Page, condition: str) -> None:
    """Move the focus with the keyboard alone until the element in focus fits."""
    for _ in range(60):
        await page.press("Tab", code=9)
        if await page.evaluate(f"(element => {condition})(document.activeElement)"):
            return
    raise AssertionError(f"the Tab key never reaches an element with {condition}")


def many_replicas(served: Served, number: int) -> Sequence[Replica]:
    """All ready except number 7."""
    first = replace(served.replicas[0], control_socket=None)
    return [
        replace(first, name=f"replica-{i:02}", state="down" if i == 7 else "ready")
        for i in range(number)
    ]


async def test_it_shows_what_the_gateway_knows(page: Page, serve: Serve) -> None:
    async with serve() as served, opened(page, served):
        await (await served.http.post("/v1/chat/completions", json=chat(stream=True))).aread()
        await page.until("document.querySelector('#replicas').innerText.includes('4 of 8')")
        tiles = await page.text("#tiles")
        assert "Replicas ready\n1 of 1" in tiles
        await page.until("/first token\\n[0-9]/.test(document.querySelector('#tiles').innerText)")
        row = await page.text("#replicas")
        assert "r0" in row
        assert "goodput" in row
        labels = await page.evaluate(
            "[...document.querySelectorAll('.plot')].map((plot) => plot.getAttribute('aria-label'))"
        )
        assert labels[0] == "Draft length, now: tokens 4"
        assert [label.split(",")[0] for label in labels] == [
            "Draft length", "Acceptance", "Goodput", "Time to first token",
            "Time per output token", "Requests",
        ]  # fmt: skip
    assert page.problems == []


async def test_it_asks_nobody_but_the_gateway(page: Page, serve: Serve) -> None:
    async with serve() as served, opened(page, served):
        await two_updates_shown(page, served)
        assert page.requests
        assert all(url.startswith(served.gateway.admin_url) for url in page.requests), page.requests
    assert page.problems == []


async def test_a_change_of_the_draft_length_becomes_an_event(page: Page, serve: Serve) -> None:
    async with serve() as served, opened(page, served) as control:
        assert "None yet" in await page.text("#no-events")
        control.state.update(
            draft_length=2, settled_length=2, steps_total=9, draft_length_changes_total=1,
            last_change_reason="2 of 8: acceptance 0.61, 0.40",
        )  # fmt: skip
        await page.until("document.querySelectorAll('#events li').length > 0")
        assert "length 4 → 2 of 8: acceptance 0.61, 0.40" in await page.text("#events li")
        assert await page.evaluate("document.querySelector('#no-events').hidden") is True


async def test_it_can_be_used_with_the_keyboard_alone(page: Page, serve: Serve) -> None:
    async with serve() as served, opened(page, served):
        await page.until("document.querySelector('.plot').ariaLabel.includes('tokens 4')")
        for _ in range(3):
            await served.gateway._live.take_snapshot()
        await press_tab_until(page, "element.id === 'chosen'")
        await press_tab_until(page, "element.classList.contains('plot')")
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        for _ in range(2):
            await page.press("ArrowLeft", code=37)
        read = "document.activeElement.getAttribute('aria-label')"
        assert "s ago: tokens 4" in await page.evaluate(read)
        assert await page.evaluate("document.querySelectorAll('.cursor').length") == 6
        await page.press("Escape", code=27)
        assert "now: tokens 4" in await page.evaluate(read)
        await press_tab_until(page, "element.id === 'only-problems'")
        await press_tab_until(page, "element.closest('#replicas') !== null")
        await page.press("Enter", code=13, text="\r")
        assert await page.evaluate("document.querySelector('#chosen').value") == "r0"
        assert await page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


async def test_fifty_replicas_are_shown_and_those_with_a_problem_are_found(
    page: Page, serve: Serve
) -> None:
    async with serve() as served, opened(page, served):
        served.source.current = many_replicas(served, 50)
        await page.until(f"{NUM_ROWS} === 50")
        assert await page.evaluate("document.querySelectorAll('#chosen option').length") == 51
        assert await page.text("#replica-count") == "50, 1 with a problem"
        await page.evaluate("document.querySelector('#only-problems').click()")
        visible = "[...document.querySelectorAll('#replicas tr')].filter((row) => !row.hidden)"
        assert await page.evaluate(f"{visible}.length") == 1
        assert "replica-07" in await page.evaluate(f"{visible}[0].innerText")
        await two_updates_shown(page, served)  # an update does not bring the others back
        assert await page.evaluate(f"{visible}.length") == 1
        served.source.current = many_replicas(served, 3)
        await page.until(f"{NUM_ROWS} === 3")
        assert await page.evaluate("document.querySelectorAll('#chosen option').length") == 4
    assert page.problems == []


@pytest.mark.parametrize("number", [1, 50])
async def test_a_narrow_screen_needs_no_sideways_scrolling(
    page: Page, serve: Serve, number: int
) -> None:
    async with serve() as served, opened(page, served, width=NARROW, height=844):
        if number > 1:
            served.source.current = many_replicas(served, number)
        await page.until(f"{NUM_ROWS} === {number}")
        assert await page.evaluate("document.documentElement.scrollWidth") == NARROW
        too_wide = await page.evaluate(
            "[...document.querySelectorAll('main *')].filter((element) =>"
            f" element.getBoundingClientRect().right > {NARROW} + 1"
            " && !element.closest('thead')).map((element) => element.outerHTML.slice(0, 80))"
        )
        assert too_wide == []


LUMINANCE = """
(() => {
  const parse = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((part) => {
    const value = Number(part) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  const luminance = (color) => {
    const [red, green, blue] = parse(color);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const opaque = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    const isClear = color === "rgba(0, 0, 0, 0)" && element.parentElement;
    return isClear ? opaque(element.parentElement) : color;
  };
  const ratios = {};
  for (const selector of SELECTORS) {
    const element = document.querySelector(selector);
    const style = getComputedStyle(element);
    const color = element instanceof SVGElement
      ? (selector.includes("line") ? style.stroke : style.fill) : style.color;
    const background = opaque(element instanceof SVGElement ? document.body : element);
    const [low, high] = [luminance(color), luminance(background)].sort((a, b) => a - b);
    ratios[selector] = (high + 0.05) / (low + 0.05);
  }
  return ratios;
})()
"""
TEXTS = ["h1", ".tile dt", ".tile dd", ".quiet", "td .good", "td .bad", ".plot text", "td.why"]


@pytest.mark.parametrize("is_dark", [False, True])
async def test_texts_and_lines_stand_out_in_light_and_dark(
    page: Page, serve: Serve, is_dark: bool
) -> None:
    """WCAG 2.2: 4.5 to 1 for text, 3 to 1 for lines."""
    await page.set_dark(is_dark)
    async with serve() as served, opened(page, served):
        served.source.current = [
            served.source.current[0],
            replace(served.replicas[0], name="down", state="down"),
        ]
        await page.until(f"{NUM_ROWS} === 2 && document.querySelector('td .bad') !== null")
        background = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(20, 23, 27)" if is_dark else "rgb(255, 255, 255)")
        script = LUMINANCE.replace("SELECTORS", json.dumps([*TEXTS, ".plot .line"]))
        ratios: dict[str, Any] = await page.evaluate(script)
    assert {name: ratio for name, ratio in ratios.items() if name in TEXTS and ratio < 4.5} == {}
    assert ratios[".plot .line"] >= 3


DRAWN_TIMES = """
document.querySelectorAll('.plot')[5].querySelector('path.line').getAttribute('d')
  .match(/[ML][\\d.]+/g).map((point) => Number(point.slice(1)))
"""


async def test_after_a_lost_connection_nothing_is_missing_and_nothing_is_double(
    page: Page, serve: Serve
) -> None:
    async with serve() as served, opened(page, served):
        live = served.gateway._live
        for _ in range(5):
            await live.take_snapshot()
        await page.until("document.querySelectorAll('.plot path.line').length > 0")
        for connection in list(served.gateway._admin._server.server_state.connections):
            connection.transport.abort()
        await page.until("document.querySelector('#status').classList.contains('lost')")
        for _ in range(5):  # while the page is away
            await live.take_snapshot()
        await page.until(IS_LIVE)
        before = live._history.last
        assert before is not None
        drawn = await page.evaluate(DRAWN_TIMES)
        after = live._history.last
        assert after is not None
        assert before.number <= len(drawn) + 1
        assert len(drawn) <= after.number
        assert drawn == sorted(drawn)


async def test_a_refused_page_says_why_without_asking_for_the_history(
    page: Page, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as served, opened(page, served):
        live = served.gateway._live
        monkeypatch.setattr(live_view, "MAX_VIEWERS", 0)
        for connection in list(served.gateway._admin._server.server_state.connections):
            connection.transport.abort()
        status = "document.querySelector('#status').innerText"
        await page.until(f"{status}.includes('viewers watch already')", within_s=60)
        assert f"{served.gateway.admin_url}/dashboard/state" not in page.requests
        monkeypatch.undo()
        await page.until(IS_LIVE, within_s=60)
        await until(lambda: live.num_viewers == 1)


async def test_a_gap_in_the_updates_brings_the_whole_history_again(
    page: Page, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as served, opened(page, served):
        events = f"{served.gateway.admin_url}/dashboard/events"
        assert page.requests.count(events) == 1
        render = live_view.render_update
        monkeypatch.setattr(
            live_view, "render_update", lambda update: {**render(update), "number": 0}
        )
        await served.gateway._live.take_snapshot()
        monkeypatch.undo()
        await until(lambda: page.requests.count(events) == 2)
        await page.until(IS_LIVE)
        await two_updates_shown(page, served)  # the updates that follow fit
        assert page.requests.count(events) == 2
    assert page.problems == []


async def test_another_process_on_the_port_replaces_what_is_shown(page: Page, serve: Serve) -> None:
    async with serve() as served, opened(page, served):
        port = served.gateway.admin_port
        await page.until(f"{NUM_ROWS} === 1")
    await page.until("document.querySelector('#status').classList.contains('lost')")
    async with serve(admin_port=port) as served:
        served.source.current = many_replicas(served, 2)
        await page.until(f"{IS_LIVE} && {NUM_ROWS} === 2", within_s=60)
        assert "replica-01" in await page.text("#replicas")


async def test_names_and_texts_of_replicas_are_no_markup(page: Page, serve: Serve) -> None:
    name = "<img src=x onerror=alert(1)>"
    async with serve() as served, opened(page, served) as control:
        control.state["reason"] = "<b>bold</b>"
        control.state["steps_total"] = 2
        served.source.current = [replace(served.source.current[0], name=name)]
        await page.until("document.querySelector('#replicas').innerText.includes('bold')")
        row = await page.text("#replicas")
        assert name in row
        assert "<b>bold</b>" in row
        assert name in await page.text("#events")
        assert await page.evaluate("document.querySelectorAll('main img, main b').length") == 0
    assert page.problems == []


async def test_with_admin_keys_a_browser_logs_in_and_out(
    page: Page, serve: Serve, tmp_path: Path
) -> None:
    file = tmp_path / "admin-keys"
    line = render_line(record(id="readaaaa", tenant="watch", role=Role.READ))
    change_text(file, lambda _: line)
    keys = KeySettings(admin_key_file=file, audit_file=tmp_path / "audit")
    async with serve(keys=keys) as served:
        await page.open(f"{served.gateway.admin_url}/", width=NARROW, height=844)
        assert await page.evaluate("location.pathname") == "/dashboard/login"
        await page.until(HAS_FOCUS)
        await page.type("pl-wrong-key")
        await page.press("Enter", code=13, text="\r")
        await page.until("document.querySelector('[role=alert]') !== null")
        assert "This key is unknown" in await page.text("main")
        await page.until(HAS_FOCUS)
        await page.type(join_key("readaaaa", SECRET))
        await page.press("Enter", code=13, text="\r")
        await page.until(f"location.pathname === '/dashboard' && {IS_LIVE}")
        await page.until(f"{NUM_ROWS} === 1")
        assert await page.evaluate("document.cookie") == ""
        change_text(file, lambda _: "")  # the key is revoked
        await page.until("location.pathname === '/dashboard/login'", within_s=60)
        change_text(file, lambda _: line)
        admin = {"authorization": f"Bearer {join_key('readaaaa', SECRET)}"}

        async def has_been_read() -> bool:
            answer = await served.admin.get("/dashboard/state", headers=admin)
            return answer.status_code == 200

        await until(has_been_read)
        await page.until(HAS_FOCUS)
        await page.type(join_key("readaaaa", SECRET))
        await page.press("Enter", code=13, text="\r")
        await page.until(f"location.pathname === '/dashboard' && {IS_LIVE}")
        await page.evaluate("document.querySelector('header button').click()")
        await page.until("location.pathname === '/dashboard/login'")
