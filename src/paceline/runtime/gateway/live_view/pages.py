"""The files of the page, and the headers that every answer of the live view has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from paceline.runtime.gateway.http.asgi import Headers

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Scripts and styles are files of their own; nothing inline runs, nothing is fetched elsewhere."""

SECURITY_HEADERS: Headers = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # Not no-referrer: with it a browser names the origin of our own forms as "null".
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]

HTML = b"text/html; charset=utf-8"
_SCRIPT = b"text/javascript; charset=utf-8"
_FILES = {
    "/dashboard": ("dashboard.html", HTML),
    "/dashboard/login": ("login.html", HTML),
    "/dashboard/style.css": ("style.css", b"text/css; charset=utf-8"),
    "/dashboard/dashboard.js": ("dashboard.js", _SCRIPT),
    "/dashboard/charts.js": ("charts.js", _SCRIPT),
    "/dashboard/events.js": ("events.js", _SCRIPT),
    "/dashboard/formats.js": ("formats.js", _SCRIPT),
    "/dashboard/refusal.js": ("refusal.js", _SCRIPT),
    "/dashboard/icon.svg": ("icon.svg", b"image/svg+xml"),
}
_MESSAGE_MARK = b"<!-- message -->"
_LOGOUT_MARK = b"<!-- log out -->"
_LOGOUT_FORM = (
    b'<form method="post" action="/dashboard/logout"><button type="submit">Log out</button></form>'
)


@dataclass(frozen=True, slots=True)
class Page:
    """One file."""

    content_type: bytes
    body: bytes

    def with_message(self, message: str) -> bytes:
        """The login page with a message. It must be text of this package: it is not escaped."""
        shown = f'<p class="message" role="alert">{message}</p>'
        return self.body.replace(_MESSAGE_MARK, shown.encode())

    def with_logout(self) -> bytes:
        """The page with a button that ends the session."""
        return self.body.replace(_LOGOUT_MARK, _LOGOUT_FORM)


def read_pages() -> Mapping[str, Page]:
    """The files by path."""
    folder = resources.files("paceline.runtime.gateway.live_view") / "assets"
    return {
        path: Page(content_type, (folder / name).read_bytes())
        for path, (name, content_type) in _FILES.items()
    }
