"""An exported script replays exactly the requests and arrivals of `paceline bench run`."""

from __future__ import annotations

import ast
import itertools
import json
import re
from typing import Any

import pytest

from paceline.foundation.load.arrivals import poisson_arrivals
from paceline.foundation.workloads import Prompt, SamplingSettings, build_specs
from paceline.workbench.bench.export.scripts import render_script
from paceline.workbench.bench.export.traffic import Traffic, make_traffic

PROMPTS = [
    Prompt("qa", ({"role": "user", "content": 'it\'s "quoted" \\n </script>\u2028'},), None, 8)
]
SAMPLING = SamplingSettings("m", 0.7, None, None, 5, {})


def traffic(**load: Any) -> Traffic:
    settings: dict[str, Any] = {"num_requests": 3, "concurrency": None, "rate_per_s": None} | load
    return make_traffic("http://h:1", PROMPTS, SAMPLING, timeout_s=60, **settings)


def test_requests_are_those_of_a_run() -> None:
    specs = itertools.islice(build_specs(PROMPTS, SAMPLING), 3)
    assert [one["body"].encode() for one in traffic(concurrency=2).requests] == [
        spec.body for spec in specs
    ]


def test_arrivals_are_those_of_a_run() -> None:
    offsets_s = traffic(rate_per_s=4.0).offsets_s
    assert offsets_s == pytest.approx(poisson_arrivals(4.0, 5, 3), abs=1e-6)
    assert traffic(concurrency=2).offsets_s is None


def test_a_locust_script_is_python_that_holds_the_traffic() -> None:
    one = traffic(rate_per_s=4.0)
    tree = ast.parse(render_script("locust", one))
    strings = [
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "json.loads"
        and isinstance(node.args[0], ast.Constant)
    ]
    assert [json.loads(str(text)) for text in strings] == [
        json.loads(json.dumps(one.as_document()))
    ]


def test_a_k6_script_holds_the_traffic_as_a_literal() -> None:
    one = traffic(concurrency=2)
    found = re.search(r"^const traffic = (\{.*?^\});$", render_script("k6", one), re.M | re.S)
    assert found is not None
    assert json.loads(found[1]) == json.loads(json.dumps(one.as_document()))


@pytest.mark.parametrize(
    ("concurrency", "offsets_s", "message"),
    [(None, None, "either"), (1, (0.1,), "either"), (None, (0.1, 0.2), "2 offsets for 1 requests")],
)
def test_a_traffic_has_one_kind_of_load(
    concurrency: int | None, offsets_s: tuple[float, ...] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Traffic("u", ({"task": "t", "path": "/", "body": "{}"},), concurrency, offsets_s, 1.0)
