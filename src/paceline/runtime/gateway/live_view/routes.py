"""`DashboardRoutes`: the live view over HTTP, a part of the admin port.

The page, its files and the login need no key, since they say nothing; the data do. A browser cannot
send a key with a stream of events, so it logs in: a form posts the key once, and a session cookie
that scripts cannot read carries on. The cookie is accepted here only, for reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from urllib.parse import parse_qs

from paceline.runtime.gateway.http.asgi import Headers, Receive, Scope, Send, header, send_body
from paceline.runtime.gateway.http.body import ClientGone
from paceline.runtime.gateway.http.client_watch import ClientWatch
from paceline.runtime.gateway.http.errors import Problem, Refusal, method_not_allowed, not_found
from paceline.runtime.gateway.keys.access import AdminAccess, Operator
from paceline.runtime.gateway.keys.ring import unauthorized
from paceline.runtime.gateway.live_view.live_view import LiveView
from paceline.runtime.gateway.live_view.pages import HTML, SECURITY_HEADERS, read_pages
from paceline.runtime.gateway.live_view.sessions import Sessions
from paceline.runtime.gateway.time_limits import (
    LIVE_VIEW_SEND_TIMEOUT_S,
    LIVE_VIEW_SESSION_S,
    LOGIN_TIMEOUT_S,
)

_MAX_FORM_BYTES = 4096
"""A key has about 50."""
_PAGE, _LOGIN, _LOGOUT = "/dashboard", "/dashboard/login", "/dashboard/logout"
_STATE, _EVENTS = "/dashboard/state", "/dashboard/events"
DASHBOARD_PATHS = ("/", _PAGE, _LOGIN, _LOGOUT, _STATE, _EVENTS)
"""Without the files of the page."""
_REFUSED_KEY = "This key is unknown, was revoked or has expired."
_CROSS_SITE = Problem(
    403,
    "A page of another origin made the browser send this request. A proxy in front must pass the "
    "Host header on as the browser sent it.",
    "cross_site",
    closes_connection=True,
)


@dataclass(frozen=True, slots=True)
class Visit:
    """How a request ended, for the audit log."""

    status: int
    operator: Operator | None = None
    """None where nobody was authenticated."""
    error: str | None = None


class DashboardRoutes:
    """Answers `/` and everything under `/dashboard`."""

    def __init__(self, live: LiveView, access: AdminAccess) -> None:
        self._live = live
        self._access = access
        self._sessions = Sessions()
        self._pages = read_pages()

    @staticmethod
    def serves(path: str) -> bool:
        """Whether the path belongs here."""
        return path in ("/", _PAGE) or path.startswith("/dashboard/")

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> Visit:
        """Answer a request. Raises `Refusal`, and `ClientGone` when its client leaves."""
        path = scope["path"]
        if not self._access.needs_key:
            self._access.check_host(scope, self._access.authenticate(scope))
        _check_method(scope)
        if path in ("/", "/dashboard/"):
            return await _redirect(send, _PAGE)
        if path == _LOGOUT:
            _refuse_other_sites(scope)
            return await self._log_out(scope, send)
        if path == _LOGIN and scope["method"] == "POST":
            _refuse_other_sites(scope)
            return await self._log_in(scope, receive, send)
        if path in (_STATE, _EVENTS):
            _refuse_other_sites(scope)
            operator = self._authenticate(scope)
            if path == _STATE:
                body = await self._live.document()
                await send_body(send, 200, body, headers=SECURITY_HEADERS)
            else:
                await self._send_events(scope, receive, send, operator)
            return Visit(200, operator)
        page = self._pages.get(path)
        if page is None:
            raise Refusal(not_found(path))
        if path == _PAGE:
            try:
                self._authenticate(scope)
            except Refusal:
                if "text/html" not in (header(scope, b"accept") or ""):
                    raise
                return await _redirect(send, _LOGIN)
        if path == _LOGIN and not self._access.needs_key:
            return await _redirect(send, _PAGE)
        body = page.with_logout() if self._access.needs_key else page.body
        await send_body(send, 200, body, page.content_type, SECURITY_HEADERS)
        return Visit(200)

    def _authenticate(self, scope: Scope) -> Operator:
        """By the key in the request, or by the session. Raises `Refusal` (401)."""
        if not self._access.needs_key or header(scope, b"authorization") is not None:
            return self._access.authenticate(scope)
        token = _cookie(scope)
        key_id = None if token is None else self._sessions.key_id_of(token, time.monotonic())
        operator = None if key_id is None else self._access.operator_of(key_id)
        if operator is None:
            raise Refusal(
                unauthorized(
                    "The live view needs a key of the admin port: log in at /dashboard/login with "
                    "a browser, or send Authorization: Bearer KEY."
                )
            )
        return operator

    async def _log_in(self, scope: Scope, receive: Receive, send: Send) -> Visit:
        key = parse_qs(await _read_form(scope, receive)).get("key", [""])[0].strip()
        operator = self._access.operator_with(key)
        if operator is None or operator.key_id is None:
            page = self._pages[_LOGIN].with_message(_REFUSED_KEY)
            await send_body(send, 401, page, HTML, SECURITY_HEADERS)
            return Visit(401, error="invalid_api_key")
        self._sessions.close(_cookie(scope) or "")  # the browser is about to lose it
        token = self._sessions.open(operator.key_id, time.monotonic())
        cookie = _set_cookie(scope, token, round(LIVE_VIEW_SESSION_S))
        visit = await _redirect(send, _PAGE, [cookie])
        return Visit(visit.status, operator)

    async def _log_out(self, scope: Scope, send: Send) -> Visit:
        operator = None
        with contextlib.suppress(Refusal):  # the session may have ended already
            operator = self._authenticate(scope)
        self._sessions.close(_cookie(scope) or "")
        visit = await _redirect(send, _LOGIN, [_set_cookie(scope, "", 0)])
        return Visit(visit.status, operator)

    async def _send_events(
        self, scope: Scope, receive: Receive, send: Send, operator: Operator
    ) -> None:
        stream = self._live.stream()
        try:
            first = await anext(stream)  # raises a `Refusal` before the head is sent
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [
                        (b"content-type", b"text/event-stream; charset=utf-8"),
                        (b"x-accel-buffering", b"no"),  # nginx would hold the events back
                        *SECURITY_HEADERS,
                    ],
                }
            )
            async with ClientWatch(receive):
                await _send_part(send, first)
                async for event in stream:
                    if not self._is_still_allowed(scope, operator):
                        break
                    await _send_part(send, event)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:  # the client does not read; the connection closes without an end
            raise ClientGone from None
        finally:
            await stream.aclose()

    def _is_still_allowed(self, scope: Scope, operator: Operator) -> bool:
        """Whether the key is still valid and, for a cookie, the session still open."""
        if operator.key_id is None:
            return True
        try:
            return self._authenticate(scope).key_id == operator.key_id
        except Refusal:
            return False


async def _send_part(send: Send, data: bytes) -> None:
    """Send a part. Raises `TimeoutError` if the client takes too long to read what came before."""
    async with asyncio.timeout(LIVE_VIEW_SEND_TIMEOUT_S):
        await send({"type": "http.response.body", "body": data, "more_body": True})


def _check_method(scope: Scope) -> None:
    path, method = scope["path"], scope["method"]
    allowed: tuple[str, ...] = ("GET", "HEAD")
    if path == _LOGOUT:
        allowed = ("POST",)
    elif path == _EVENTS:
        allowed = ("GET",)
    elif path == _LOGIN:
        allowed = ("GET", "HEAD", "POST")
    if method not in allowed:
        raise Refusal(method_not_allowed(method, path, ", ".join(allowed)))


def _refuse_other_sites(scope: Scope) -> None:
    """Refuse what a page of another origin made a browser send. Programs send neither header.

    Browsers send `Sec-Fetch-Site` over https and to loopback only. `Origin` they send with every
    POST and with a stream of events from another origin. The schemes are not compared, because a
    proxy may speak TLS in front.
    """
    if header(scope, b"sec-fetch-site") not in (None, "same-origin", "none"):
        raise Refusal(_CROSS_SITE)
    origin = header(scope, b"origin")
    if origin is not None and not _is_own_origin(origin, header(scope, b"host") or ""):
        raise Refusal(_CROSS_SITE)


def _is_own_origin(origin: str, host: str) -> bool:
    """Whether both name the same host and port. `null`, the origin of some pages, is another."""
    scheme, separator, authority = origin.partition("://")
    default_port = {"http": ":80", "https": ":443"}.get(scheme)
    if not separator or default_port is None:
        return False
    return authority.lower() == host.lower().removesuffix(default_port)


async def _redirect(send: Send, path: str, headers: Headers | None = None) -> Visit:
    location = (b"location", path.encode())
    await send_body(send, 303, b"", HTML, [location, *(headers or []), *SECURITY_HEADERS])
    return Visit(303)


async def _read_form(scope: Scope, receive: Receive) -> str:
    """The body of the login form. Raises `Refusal` (408, 413, 415) or `ClientGone`."""
    content_type = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if content_type != "application/x-www-form-urlencoded":
        raise Refusal(
            Problem(
                415, "The login takes a form (application/x-www-form-urlencoded).",
                "unsupported_media_type", closes_connection=True,
            )
        )  # fmt: skip
    body, has_more = b"", True
    try:
        async with asyncio.timeout(LOGIN_TIMEOUT_S):
            while has_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                body += message.get("body", b"")
                has_more = message.get("more_body", False)
                if len(body) > _MAX_FORM_BYTES:
                    text = f"The form is longer than {_MAX_FORM_BYTES} bytes."
                    raise Refusal(Problem(413, text, "body_too_large", closes_connection=has_more))
    except TimeoutError:
        text = f"The form was not complete within {LOGIN_TIMEOUT_S:g} s."
        raise Refusal(Problem(408, text, "body_timeout", closes_connection=True)) from None
    return body.decode("latin-1")


def _cookie_name(scope: Scope) -> str:
    """Cookies of a host reach all its ports, so the name has the port that the browser uses.

    An SSH tunnel gives it another one than the socket's. Without a port in `Host` it is that of the
    scheme, which only a proxy in front knows.
    """
    port = (header(scope, b"host") or "").rpartition(":")[2]
    is_port = port.isascii() and port.isdigit() and len(port) <= 5
    return f"paceline_session_{port}" if is_port else "paceline_session"


def _cookie(scope: Scope) -> str | None:
    """The token that the browser sent."""
    for pair in (header(scope, b"cookie") or "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == _cookie_name(scope):
            return value
    return None


def _set_cookie(scope: Scope, token: str, max_age_s: int) -> tuple[bytes, bytes]:
    text = (
        f"{_cookie_name(scope)}={token}; HttpOnly; SameSite=Strict; Path={_PAGE}; "
        f"Max-Age={max_age_s}"
    )
    return b"set-cookie", text.encode()
