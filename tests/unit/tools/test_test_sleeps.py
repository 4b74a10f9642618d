"""The check of sleeps and short limits in tests."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from test_sleeps.__main__ import main
from test_sleeps.checker import check


def found(text: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.kind) for finding in check(dedent(text).lstrip())]


@pytest.mark.parametrize(
    "line",
    [
        "await asyncio.sleep(0.05)",
        "await asyncio.sleep(0 if is_slow else 1)",
        "await asyncio.sleep(delay=1)",
        "time.sleep(1)",
        "await anyio.sleep(1)",
        "await trio.sleep(1)",
        "await asyncio.to_thread(time.sleep, 1)",
        "loop.call_later(0.01, task.cancel)",
        "asyncio.get_running_loop().call_at(5, task.cancel)",
    ],
)
def test_a_sleep_is_found_however_it_is_written(line: str) -> None:
    assert found(f"async def test_it():\n    {line}") == [(2, "sleep")]


def test_an_imported_sleep_is_found_under_its_new_name() -> None:
    text = """
        from time import sleep as pause
        from asyncio import sleep
        def test_it():
            pause(1)
        async def test_other():
            await sleep(1)
    """
    assert found(text) == [(4, "sleep"), (6, "sleep")]


def test_a_turn_of_the_loop_is_no_sleep() -> None:
    assert found("await asyncio.sleep(0)\nawait asyncio.sleep(0.0)\nserver.sleep(3)") == []


@pytest.mark.parametrize(
    "line",
    [
        "asyncio.timeout(59)",
        "asyncio.wait_for(coming, 1)",
        "asyncio.wait_for(coming, timeout=LIMIT_S)",
        "http.get('/', timeout=0.5)",
        "until(is_ready, within_s=2)",
        "thread.join(1)",
        "event.wait(timeout=1.5)",
    ],
)
def test_a_limit_that_a_slow_machine_exceeds_is_found(line: str) -> None:
    assert found(f"import threading\nLIMIT_S = 5\n{line}") == [(3, "limit")]


@pytest.mark.parametrize(
    "line",
    [
        "asyncio.timeout(60)",
        "asyncio.wait_for(coming, None)",
        "http.get('/', timeout=LIMIT_S)",
        "assert thread_ended.wait(5)",
        "thread_ended.wait(60)",
        "asyncio.timeout(0)",
        "thread.join()",
    ],
)
def test_a_limit_that_only_ends_a_hang_is_none(line: str) -> None:
    assert found(f"import threading\nLIMIT_S = 90.0\n{line}") == []


def test_a_reason_on_the_line_or_above_it_allows_a_sleep() -> None:
    text = """
        time.sleep(1)  # sleep: the server is slow by design
        # sleep: the pause between two looks decides nothing,
        # whatever its length
        time.sleep(1)
        asyncio.timeout(2)  # limit: the request is expected to hang
    """
    assert found(text) == []


@pytest.mark.parametrize(
    "comment",
    ["# sleep:", "# sleep: needed", "# sleep: is needed", "# limit: a limit is here", "# sleeps"],
)
def test_a_comment_without_a_reason_allows_nothing(comment: str) -> None:
    assert found(f"time.sleep(1)  {comment}") == [(1, "sleep")]


def test_a_reason_holds_for_one_line() -> None:
    assert found("# sleep: this one is harmless\ntime.sleep(1)\ntime.sleep(1)") == [(3, "sleep")]


def test_virtual_time_is_no_time() -> None:
    text = """
        from unit.simulated_loop import run_simulated
        async def scenario():
            await asyncio.sleep(1000)
        def test_it():
            async def inner():
                async with asyncio.timeout(2):
                    await asyncio.sleep(1)
            run_simulated(inner())
        @simulated
        async def test_other():
            await asyncio.sleep(1)
    """
    assert found(text) == []


def test_beside_virtual_time_a_test_on_a_real_loop_is_checked_with_all_that_it_uses() -> None:
    text = """
        from unit.simulated_loop import run_simulated
        class Slow:
            async def answer(self):
                await asyncio.sleep(1)
        def used():
            return Slow()
        async def scenario():
            await asyncio.sleep(1)
        @pytest_asyncio.fixture
        async def served():
            await asyncio.sleep(1)
        async def test_it():
            await used().answer()
    """
    assert found(text) == [(4, "sleep"), (11, "sleep")]


def test_the_command_names_each_place_and_what_to_do_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_a.py").write_text("import time\ntime.sleep(1)\n")
    (tmp_path / "test_b.py").write_text("pass\n")
    assert main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{tmp_path}/test_a.py:2: sleep: time.sleep"
    assert printed[1].startswith("sleep: wait for what must happen")
    assert main([str(tmp_path / "test_b.py")]) == 0
    assert capsys.readouterr().out == ""
