"""A hook of MkDocs: links from a page to files of the repository outside `docs`.

Raw results, code and tests are not part of the site. With `extra.repository`, the URL of the
repository as a browser shows it, such links lead there; without it, only their text is left.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_CODE = r"(?P<code>^```.*?^```|`[^`\n]*`)"
_LINK = re.compile(
    _CODE + r"|(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>(?:\.\./)+[^()\s]*)\)",
    re.DOTALL | re.MULTILINE,
)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Called by MkDocs for every page, before it is rendered."""
    return lead_out(markdown, page.file.src_uri, config["extra"].get("repository") or "")


def lead_out(markdown: str, page: str, repository: str) -> str:
    """The page with its links out of `docs` changed.

    Args:
        markdown: Text of the page.
        page: Path of the page within `docs`, as `how-to/deploy.md`.
        repository: URL without a slash at the end, or empty.
    """

    def change(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        path, _, anchor = match["target"].partition("#")
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
        if target == "docs" or target.startswith("docs/"):
            return match[0]
        if not repository:
            return match["text"]
        anchor = f"#{anchor}" if anchor else ""
        return f"[{match['text']}]({repository}/blob/main/{target}{anchor})"

    return _LINK.sub(change, markdown)
