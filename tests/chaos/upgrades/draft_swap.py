"""Swap the draft of a running server's engines over the admin port, and wait for the end."""

from __future__ import annotations

from typing import Any

from polling import wait_until

from chaos.gateway_process import HTTP


def swap_draft(
    admin_url: str, draft: str, *, allow_outage: bool = False, within_s: float = 60.0
) -> dict[str, Any]:
    """The state of the swap once it has ended. Raises `TimeoutError` after `within_s`."""
    body = {"draft": draft, "allow_outage": allow_outage}
    answer = HTTP.post(f"{admin_url}/admin/draft", json=body)
    assert answer.status_code == 202, answer.text

    def ended() -> dict[str, Any] | None:
        swap: dict[str, Any] = HTTP.get(f"{admin_url}/admin/draft").json()["swap"]
        return None if swap["state"] == "running" else swap

    swap = wait_until(ended, within_s)
    assert swap is not None
    return swap


def drafts(admin_url: str) -> list[str]:
    """What the engines of the server run with."""
    return [one["draft"] for one in HTTP.get(f"{admin_url}/admin/draft").json()["replicas"]]
