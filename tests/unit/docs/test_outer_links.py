"""Links of the site's pages that lead out of `docs`."""

from __future__ import annotations

import pytest
from docs_site.outer_links import lead_out

URL = "https://code.example/paceline"


@pytest.mark.parametrize(
    ("page", "link", "target"),
    [
        ("gateway.md", "../src/paceline/cli.py", "src/paceline/cli.py"),
        ("how-to/deploy.md", "../../deploy/compose.yaml", "deploy/compose.yaml"),
        ("how-to/deploy.md", "../../CONTRIBUTING.md#pages", "CONTRIBUTING.md#pages"),
    ],
)
def test_a_link_out_of_the_docs_leads_to_the_repository(page: str, link: str, target: str) -> None:
    assert lead_out(f"see [it]({link}).", page, URL) == f"see [it]({URL}/blob/main/{target})."
    assert lead_out(f"see [it]({link}).", page, "") == "see it."


@pytest.mark.parametrize(
    "text",
    [
        "[another page](../glossary.md#draft)",
        "[the start](../README.md)",
        "[a neighbour](measure.md)",
        "![a picture](../images/top.png)",
        "`[code](../../src/x.py)`",
        "```\n[code](../../src/x.py)\n```",
        "[abroad](https://example.org/../x)",
    ],
)
def test_all_else_stays(text: str) -> None:
    assert lead_out(text, "how-to/deploy.md", URL) == text


def test_code_and_brackets_in_the_text_of_a_link() -> None:
    page = "[`a[0]` and [b]](../benchmarks/x.py), [two](../benchmarks/y.py)"
    assert lead_out(page, "a.md", "") == "`a[0]` and [b], two"
