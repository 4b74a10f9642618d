"""The page is whole, self-contained, and says what the document says."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from paceline.workbench.bench.report import compare_page, run_page
from paceline.workbench.bench.report.page import ReportError, render_report
from unit.bench.report.documents import compare_document, run_document, settings_document

VOID = {"meta", "br", "link", "rect", "circle", "line", "path"}


class Checker(HTMLParser):
    """Collects text and attributes, and finds tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.num_plots = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self.num_plots += tag == "svg"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def check(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    return checker


@pytest.mark.parametrize("document", [run_document(), compare_document()])
def test_a_page_is_well_formed_and_needs_nothing_else(document: dict[str, Any]) -> None:
    page = render_report(document)
    checker = check(page)
    names = {name for name, _ in checker.attributes}
    assert not names & {"src", "href", "onload", "action"}
    assert "url(" not in page
    assert "@import" not in page
    assert "<script" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert checker.headings[0] == "In short"
    assert checker.headings[-2:] == ["How it was measured", "Machine and versions"]
    assert checker.num_plots == (1 if "summary" in document else 2)


def test_the_summary_of_a_run_in_plain_words() -> None:
    """1100 tokens in 20 s; tokens after the first come every 10 ms."""
    assert list(run_page.summary_sentences(run_document())) == [
        "The server produced 55 output tokens per second with 1 request in flight at a time.",
        "Half of the requests got their first token within 100 ms, nine of ten within 110 ms.",
        "After that, a typical answer grew by one token every 10 ms.",
        "All 100 requests succeeded.",
    ]


def test_an_invalid_run_says_so_first() -> None:
    document = run_document(valid=False, notes=["the load generator was <late>"])
    first, *_ = run_page.summary_sentences(document)
    assert first.startswith("This run is not valid")
    assert "the load generator was &lt;late&gt;" in render_report(document)


def test_acceptance_and_failures_are_stated() -> None:
    document = run_document()
    document["speculation"] |= {"acceptance_rate": 0.634, "acceptance_length": 2.9}
    document["summary"]["num_errors"] = 3
    *_, acceptance, failures = run_page.summary_sentences(document)
    assert acceptance == (
        "Of the tokens that the drafter proposed, 63.4 % were accepted: a step of the model "
        "yielded 2.9 tokens on average."
    )
    assert failures == "3 of 100 requests failed."


def test_drafts_of_other_clients_are_named() -> None:
    document = run_document(warnings=[{"id": "other_traffic", "message": "m"}])
    document["speculation"] |= {"acceptance_rate": 0.634, "acceptance_length": 2.9}
    *_, counted, whose, _ = run_page.summary_sentences(document)
    assert "63.4 % were accepted" in counted
    assert whose == "These drafts are those of all clients of the server, not of this run alone."
    document["summary"]["acceptance"] = {"acceptance_rate": 0.5, "acceptance_length": None}
    *_, own, _ = run_page.summary_sentences(document)
    assert own == "Of the tokens that the drafter proposed, 50 % were accepted."


def test_goodput_is_stated_with_its_objective() -> None:
    document = run_document()
    document["summary"]["goodput"] = {
        "slo": {"ttft_ms": 1000.0, "tpot_ms": 50.0, "e2e_ms": None},
        "attained_fraction": 0.95,
        "attained_fraction_ci95": [0.89, 0.98],
    }
    *_, goodput, _ = run_page.summary_sentences(document)
    assert goodput == (
        "95 % of the requests met the objective (first token within 1 s, further tokens within "
        "50 ms); with 95 % certainty 89 % to 98 %."
    )


def test_phases_and_the_course_of_a_run_are_shown() -> None:
    phase = {
        "name": "rush",
        "load": "8 in flight",
        "summary": run_document()["summary"],
        "adaptation": [{"lag_s": 1.5}, {"lag_s": 2.5}, {"lag_s": None}],
    }
    course = {"bucket_s": 1.0, "output_tokens_per_s": [10.0, 50.0, 60.0]}
    page = render_report(run_document(phases=[phase], series=[course]))
    checker = check(page)
    assert checker.num_plots == 2
    assert "<td>rush</td><td>8 in flight</td><td>55</td><td>100</td><td>10</td><td>2</td>" in page


def test_an_earlier_document_has_its_validity_in_the_summary() -> None:
    document = run_document()
    del document["valid"]
    document["summary"]["is_valid"] = False
    first, *_ = run_page.summary_sentences(document)
    assert first.startswith("This run is not valid")


def test_names_of_servers_and_models_are_escaped() -> None:
    assert "m&lt;1&gt;" in render_report(run_document())


def test_unknown_figures_are_shown_as_unknown() -> None:
    document = run_document()
    document["summary"]["output_tokens_per_s"] = None
    empty: dict[str, Any] = dict.fromkeys(document["summary"]["tpot_ms"])
    empty["num_samples"] = 0
    document["summary"]["tpot_ms"] = empty
    page = render_report(document)
    check(page)
    assert "unknown" in page
    assert "NaN" not in page


@pytest.mark.parametrize(
    ("rates_of_b", "verdict", "text"),
    [
        ((110.0, 112.0), "B is faster than A", "% more than A"),
        ((90.0, 91.0), "B is slower than A", "% less than A"),
        ((101.0, 101.0), "No difference that matters", "within the margin of 3 %"),
    ],
)
def test_the_verdict_of_a_comparison_in_plain_words(
    rates_of_b: tuple[float, float], verdict: str, text: str
) -> None:
    document = compare_document(rates_of_b)
    assert f">{verdict}</p>" in render_report(document)
    first, noise, amount = compare_page.summary_sentences(document)
    assert text in first
    assert "certainty" in first
    assert noise.startswith("A compared with itself differs by ")
    assert amount == "20 rounds with 320 requests, none of which failed."


def test_the_settings_of_the_arms_are_named() -> None:
    page = render_report(settings_document())
    assert ">B (on) is faster than A (off)</p>" in page
    assert "http://h:1; A: off (draft length 0); B: on (policy &lt;goodput&gt;);" in page
    assert "<th>A (off)</th><th>B (on)</th>" in page
    assert "<td>Time to first token, ms</td>" in page
    assert "it was switched before every block" in page


def test_every_value_axis_has_its_unit() -> None:
    page = render_report(compare_document())
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", page)
    assert "difference of B from A in %" in texts
    assert "time in minutes" in texts
    assert "A with itself" in texts
    assert "Output tokens/s" in texts


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "paceline plan"}, "its kind is 'paceline plan'; it must be the JSON of one of"),
        ({"kind": "paceline bench run", "schema_version": 99}, "this release reads"),
        ({"kind": "paceline bench run", "schema_version": 1}, "it lacks a part"),
    ],
)
def test_other_documents_are_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ReportError, match=message):
        render_report(document)
