"""What `--settings` says of an arm, as a change of the governors. Pure."""

from __future__ import annotations

_KEYS = ("policy", "draft_length", "ceiling")
_ALLOWED = (
    "off, on (as the server is set now), or some of policy=NAME, draft_length=N and ceiling=N, "
    "joined by commas, such as policy=goodput,ceiling=4"
)


def parse_setting(text: str) -> dict[str, object]:
    """The change of the governors, as PATCH /admin/governor takes it; empty for `on`.

    What a change does not name stays as it was found on the server. Raises ValueError for a text of
    another form; which values are allowed is for the server to say.

    >>> parse_setting("off"), parse_setting("policy=goodput,ceiling=4")
    ({'draft_length': 0}, {'policy': 'goodput', 'ceiling': 4})
    """
    if text in ("off", "on"):
        return {"draft_length": 0} if text == "off" else {}
    change: dict[str, object] = {}
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        key = key.replace("-", "_")  # as the options of `paceline governor set` are spelt
        is_number = value.isascii() and value.isdigit() and len(value) < 10
        if key not in _KEYS or key in change or not value or not (key == "policy" or is_number):
            raise ValueError(f"{text!r}; it must be {_ALLOWED}")
        change[key] = value if key == "policy" else int(value)
    return change
