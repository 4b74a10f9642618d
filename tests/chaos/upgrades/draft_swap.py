"""Swap the draft of a running server's engines over the admin port, and wait for the end."""

from __future__ import annotations

import time
from typing import Any

from chaos.gateway_process import HTTP

_CHECK_S = 0.2


def swap_draft(
    admin_url: str, draft: str, *, allow_outage: bool = False, within_s: float = 60.0
) -> dict[str, Any]:
    """The state of the swap once it has ended. Raises `TimeoutError` after `within_s`."""
    body = {"draft": draft, "allow_outage": allow_outage}
    answer = HTTP.post(f"{admin_url}/admin/draft", json=body)
    assert answer.status_code == 202, answer.text
    deadline_s = time.monotonic() + within_s
    while True:
        swap: dict[str, Any] = HTTP.get(f"{admin_url}/admin/draft").json()["swap"]
        if swap["state"] != "running":
            return swap
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"the swap did not end within {within_s:g} s: {swap}")
        time.sleep(_CHECK_S)


def drafts(admin_url: str) -> list[str]:
    """What the engines of the server run with."""
    return [one["draft"] for one in HTTP.get(f"{admin_url}/admin/draft").json()["replicas"]]
