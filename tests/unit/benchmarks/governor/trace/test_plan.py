"""The plan of a run follows from the options of the command line."""

from __future__ import annotations

import json

from benchmarks.governor.trace.plan import TraceOptions, build_plan


def test_the_bundled_pair_is_named_without_a_folder() -> None:
    options = TraceOptions("bundled", "model", "bundled", 5, 1, 4.0, 1024, ("K=0",))
    command = build_plan(options)["servers"]["drafted"]["command"]
    assert command[command.index("--draft") + 1] == "auto"
    assert "bundled" not in command


def test_equal_options_make_an_equal_plan_after_json() -> None:
    """What `--resume` relies on."""
    options = TraceOptions("runs/twin", "ngram", "bundled", 5, 1, 8.0, 640, ("none", "K=0"))
    plan = build_plan(options)
    assert json.loads(json.dumps(plan)) == json.loads(json.dumps(build_plan(options)))
    assert plan["name"] == "governor-twin-ngram"
