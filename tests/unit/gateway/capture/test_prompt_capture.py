"""Requests are drawn, kept by a thread, and counted; the data path never waits."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.runtime.gateway.capture import prompt_capture
from paceline.runtime.gateway.capture.prompt_capture import (
    MAX_TEXT_BYTES,
    MAX_WAITING,
    PromptCapture,
    load_redaction,
)
from paceline.runtime.gateway.capture.results import CaptureResult, CaptureUnusable
from paceline.runtime.gateway.keys.ring import Tenant
from paceline.runtime.gateway.requests.routes import COMPLETIONS, EMBEDDINGS
from paceline.runtime.gateway.requests.validation import CheckedRequest, check_request
from paceline.runtime.gateway.settings import CaptureSettings
from unit.gateway.conftest import SETTINGS

Start = Callable[..., PromptCapture]


def completion(prompt: str = "p") -> CheckedRequest:
    body = json.dumps({"model": "m", "prompt": prompt}).encode()
    return check_request(COMPLETIONS, body, SETTINGS)


class Counted:
    """What was counted."""

    def __init__(self) -> None:
        self.results: list[CaptureResult] = []

    def __call__(self, result: CaptureResult) -> None:
        self.results.append(result)


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def start(tmp_path: Path, counted: Counted) -> Iterator[Start]:
    """Start a capture of everything into `tmp_path`; closed at the end."""
    started = []

    def begin(draw: Callable[[], float] = lambda: 0.0, **settings: Any) -> PromptCapture:
        given = CaptureSettings(**{"folder": tmp_path, "share": 1.0, **settings})
        capture = PromptCapture(given, counted, draw=draw)
        started.append(capture)
        return capture

    yield begin
    for capture in started:
        capture.close()


def lines(folder: Path) -> list[dict[str, Any]]:
    text = "".join(path.read_text() for path in sorted(folder.glob("*.jsonl")))
    return [json.loads(line) for line in text.splitlines()]


def test_offered_requests_are_written_and_counted(
    start: Start, tmp_path: Path, counted: Counted
) -> None:
    capture = start()
    capture.offer(completion("one"), text="not kept by default")
    capture.offer(completion("two"), body=b'{"choices": [{"text": "nor this"}]}')
    capture.close()
    assert [line["prompt"] for line in lines(tmp_path)] == ["one", "two"]
    assert not any("answer" in line for line in lines(tmp_path))
    assert counted.results == [CaptureResult.WRITTEN] * 2


def test_answers_are_kept_where_that_is_set(start: Start, tmp_path: Path) -> None:
    capture = start(answers=True)
    capture.offer(completion(), text="streamed")
    capture.offer(completion(), body=b'{"choices": [{"text": "whole"}]}')
    capture.offer(completion())
    capture.close()
    assert [line.get("answer") for line in lines(tmp_path)] == ["streamed", "whole", None]


def test_old_prompts_are_deleted_while_requests_keep_coming(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook takes a minute, so the thread never waits for a request."""
    now_s, seen = [1000.0], []
    old = tmp_path / "prompts-970000-1.jsonl"

    def take_a_minute(text: str) -> None:
        seen.append(old.exists())
        now_s[0] += 60.0

    monkeypatch.setattr(prompt_capture, "load_redaction", lambda name: take_a_minute)
    old.write_text("{}\n")
    settings = CaptureSettings(folder=tmp_path, redact="planted:take_a_minute", max_age_s=60.0)
    capture = PromptCapture(settings, counted, clock=lambda: now_s[0], monotonic=lambda: now_s[0])
    capture.offer(completion())
    capture.offer(completion())
    capture.close()
    assert seen == [True, False]


def test_a_share_of_0_draws_nothing_and_deletes_what_is_too_old(
    start: Start, tmp_path: Path
) -> None:
    old = tmp_path / "prompts-970000-1.jsonl"
    old.write_text("{}\n")
    assert not start(share=0.0).draws(completion(), None)
    assert not old.exists()


def test_a_share_of_the_requests_is_drawn(start: Start) -> None:
    draws = iter([0.05, 0.2, 0.0999, 0.1])
    capture = start(lambda: next(draws), share=0.1)
    assert [capture.draws(completion(), None) for _ in range(4)] == [True, False, True, False]


def test_a_key_that_opted_out_is_never_drawn(start: Start) -> None:
    capture = start()
    tenant = Tenant("clinic", frozenset(), "abcdefgh", may_be_captured=False)
    assert not capture.draws(completion(), tenant)
    assert capture.draws(completion(), Tenant("acme", frozenset(), "abcdefgi"))


def test_requests_without_a_generated_answer_are_never_drawn(start: Start) -> None:
    body = json.dumps({"model": "m", "input": "x"}).encode()
    assert not start().draws(check_request(EMBEDDINGS, body, SETTINGS), None)


def redact_names(text: str) -> str | None:
    """A hook for the tests."""
    if "secret" in text:
        return None
    if "broken" in text:
        raise RuntimeError(f"cannot read {text}")
    if "cancelled" in text:
        raise asyncio.CancelledError
    if "blank" in text:
        return ""
    if "half" in text:
        return "\ud83d"  # half an emoji, which is no text in UTF-8
    return text.replace("Ada", "NAME")


def test_the_hook_redacts_drops_and_may_fail(
    start: Start, tmp_path: Path, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure drops the request, and the log does not quote its text."""
    capture = start(redact=f"{__name__}:redact_names")
    for prompt in ("Ada asks", "a secret", "blank", "broken text", "half", "cancelled", "more"):
        capture.offer(completion(prompt))
    with caplog.at_level(logging.ERROR):
        capture.close()
    assert [line["prompt"] for line in lines(tmp_path)] == ["NAME asks", "more"]
    written, failed = CaptureResult.WRITTEN, CaptureResult.REDACTION_FAILED
    assert counted.results == [
        written, *[CaptureResult.REDACTED] * 2, *[failed] * 3, written
    ]  # fmt: skip
    assert caplog.messages == [
        f"capture: redaction failed: {name}"
        for name in ("RuntimeError", "UnicodeEncodeError", "CancelledError")
    ]


def test_a_full_queue_drops_and_counts_without_waiting(
    start: Start, tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the hook is stuck with the first request, one more than the queue holds is dropped."""
    is_stuck, may_continue = threading.Event(), threading.Event()

    def stick(text: str) -> str:
        is_stuck.set()
        may_continue.wait(60)
        return text

    monkeypatch.setattr(prompt_capture, "load_redaction", lambda name: stick)
    capture = start(redact="planted:stick")
    capture.offer(completion())
    assert is_stuck.wait(60)
    for _ in range(MAX_WAITING + 1):
        capture.offer(completion())
    assert counted.results == [CaptureResult.QUEUE_FULL]
    may_continue.set()
    capture.close()
    assert len(lines(tmp_path)) == MAX_WAITING + 1


def test_long_texts_and_prompts_that_are_not_text_are_counted(
    start: Start, tmp_path: Path, counted: Counted
) -> None:
    capture = start(answers=True)
    capture.offer(completion("x" * MAX_TEXT_BYTES))
    capture.offer(completion(), text="x" * (MAX_TEXT_BYTES + 1))
    ids = check_request(COMPLETIONS, b'{"model": "m", "prompt": [1, 2]}', SETTINGS)
    capture.offer(ids)
    capture.close()
    assert counted.results == [*[CaptureResult.TOO_LARGE] * 2, CaptureResult.NOT_TEXT]
    assert lines(tmp_path) == []


def test_a_disk_that_fails_is_counted_and_logged_once(
    start: Start, tmp_path: Path, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "kept"
    capture = start(folder=folder)
    folder.rmdir()
    folder.write_text("a file in its place")
    with caplog.at_level(logging.ERROR):
        capture.offer(completion())
        capture.offer(completion())
        capture.close()
    assert counted.results == [CaptureResult.WRITE_FAILED] * 2
    assert len(caplog.messages) == 1


def test_a_folder_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(CaptureUnusable, match=r"capture\.folder .*/file cannot be used"):
        PromptCapture(CaptureSettings(folder=file), lambda result: None)
    with pytest.raises(CaptureUnusable, match="not set"):
        PromptCapture(CaptureSettings(), lambda result: None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_package:redact", "cannot be imported"),
        ("json:no_such_function", "cannot be imported"),
        ("json:__name__", "is not a function"),
    ],
)
def test_a_hook_that_cannot_be_used_is_named(name: str, message: str) -> None:
    with pytest.raises(CaptureUnusable, match=rf"capture\.redact is {name}.*{message}"):
        load_redaction(name)
    assert load_redaction("json:dumps") is json.dumps


@pytest.mark.parametrize("text", ["def redact(:\n", "raise ValueError('no licence')\n"])
def test_a_module_that_fails_when_it_is_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "failing_privacy.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CaptureUnusable, match=r"capture\.redact is failing_privacy:redact, which"):
        load_redaction("failing_privacy:redact")
