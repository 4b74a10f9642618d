"""The scripts of the page, run by Node.js without a browser: what they claim before the first
data, and how they name models."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from missing_program import skip_or_fail

import paceline.runtime.gateway.live_view

ASSETS = Path(paceline.runtime.gateway.live_view.__file__).parent / "assets"
PAGE = """
class Node {
  constructor() { this.children = []; this.attributes = {}; this.textContent = ""; }
  append(...nodes) { this.children.push(...nodes); }
  replaceChildren(...nodes) { this.children = nodes; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener() {}
  get clientWidth() { return 400; }
  get texts() { return [this.textContent, ...this.children.flatMap((one) => one.texts)]; }
}
globalThis.document = { createElement: () => new Node(), createElementNS: () => new Node() };
globalThis.ResizeObserver = class {
  constructor(run) { this.run = run; }
  observe() { this.run(); }
};
"""


def run(program: str) -> Any:
    node = shutil.which("node")
    if node is None:
        skip_or_fail("Node.js is missing: install nodejs")
    ended = subprocess.run(
        [node, "--input-type=module", "--eval", program],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return json.loads(ended.stdout)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("smollm2-135m-instruct", "smollm2-135m-instruct"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("/root/.cache/paceline/models/smollm2-135m-instruct", "smollm2-135m-instruct"),
        ("/models/llama/", "llama"),
        ("./out/w4a16", "w4a16"),
        ("~/models/qwen", "qwen"),
        ("C:\\models\\qwen", "qwen"),
        (
            "/root/.cache/huggingface/hub/models--org--name-7B/snapshots/0a1b2c",
            "org/name-7B",
        ),
        ("/", "/"),
        ("", ""),
    ],
)
def test_a_model_has_its_name_instead_of_its_path(model: str, name: str) -> None:
    program = (
        f"import {{ modelName }} from {json.dumps((ASSETS / 'formats.js').as_uri())};"
        f"console.log(JSON.stringify(modelName({json.dumps(model)})));"
    )
    assert run(program) == name


def test_a_chart_claims_nothing_before_its_first_data() -> None:
    program = (
        PAGE + f"const {{ Chart }} = await import({json.dumps((ASSETS / 'charts.js').as_uri())});"
        "const definition = { title: 'Draft length', empty: 'no replica reports a draft length',"
        " format: String, lines: [{ name: 'tokens', class: 'a' }] };"
        "const chart = new Chart(definition, () => {});"
        "chart.followPointer({ clientX: 0 });"
        "const label = () => chart.plot.attributes['aria-label'];"
        "const shown = () => [chart.plot.texts.filter(Boolean), label()];"
        "const before = shown();"
        "chart.show({ times: [1000], values: [[null]] }, null);"
        "console.log(JSON.stringify([before, shown()]));"
    )
    before, after = run(program)
    assert before == [[], "Draft length: no data yet"]
    assert "no replica reports a draft length" in after[0]
    assert after[1] == "Draft length, now: tokens –"  # noqa: RUF001


def test_the_page_claims_no_events_while_it_connects() -> None:
    page = (ASSETS / "dashboard.html").read_text()
    assert '<body data-connection="waiting">' in page
    assert '<p id="no-events" class="quiet" hidden>' in page
