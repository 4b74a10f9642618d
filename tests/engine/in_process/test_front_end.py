"""The gauges on vLLM's metrics page: whether caps on drafts are kept, and the model's revision."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.engine

OURS = "paceline.engine.AdaptiveScheduler"


def config(scheduler: Any, *, speculates: bool = True) -> Any:
    return SimpleNamespace(
        speculative_config=object() if speculates else None,
        scheduler_config=SimpleNamespace(scheduler_cls=scheduler),
        parallel_config=SimpleNamespace(_api_process_rank=0),
        additional_config={"paceline": {"control_socket": ""}},
    )


def reported() -> float | None:
    from prometheus_client import REGISTRY

    from paceline.runtime.engine.front_end import NAME

    return REGISTRY.get_sample_value(NAME)


def test_vllm_finds_the_class_by_its_entry_point() -> None:
    """vLLM refuses to start with one that is no subclass of its own."""
    from vllm.plugins import STAT_LOGGER_PLUGINS_GROUP
    from vllm.v1.metrics.loggers import StatLoggerBase

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    target = project["project"]["entry-points"][STAT_LOGGER_PLUGINS_GROUP]["paceline"]
    module, _, name = target.partition(":")
    assert issubclass(getattr(importlib.import_module(module), name), StatLoggerBase)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (config(OURS), 1.0),
        (config(None), 0.0),
        (config("vllm.v1.core.sched.scheduler.Scheduler"), 0.0),
        (config(None, speculates=False), 1.0),
    ],
    ids=["ours", "default", "other", "without speculation"],
)
def test_the_gauge_says_whether_caps_are_kept(given: Any, expected: float) -> None:
    """A second engine in the process reports through the same gauge."""
    from paceline.runtime.engine.front_end import DraftCapReport

    report = DraftCapReport(given)
    report.record(None, None)
    report.log_engine_initialized()
    assert reported() == expected


def test_the_revision_of_the_bundled_pair_does_not_depend_on_its_drafter() -> None:
    from prometheus_client import REGISTRY

    from paceline import demo
    from paceline.runtime.engine.front_end import REVISION_NAME, DraftCapReport, model_revision

    def serving(folder: Path, dtype: str = "float32", *, speculates: bool = True) -> Any:
        model = SimpleNamespace(
            model=str(folder), tokenizer=str(folder), revision=None, tokenizer_revision=None,
            dtype=dtype, quantization=None, hf_overrides={},
        )  # fmt: skip
        return SimpleNamespace(**vars(config(OURS, speculates=speculates)), model_config=model)

    target = serving(demo.target_path())
    revision = model_revision(target)
    assert revision is not None
    assert model_revision(serving(demo.target_path(), speculates=False)) == revision
    assert model_revision(serving(demo.target_path(), "float16")) != revision
    assert model_revision(serving(demo.draft_path())) != revision
    assert model_revision(serving(Path("no/such-model"))) is None
    DraftCapReport(target)
    assert REGISTRY.get_sample_value(REVISION_NAME, {"revision": revision}) == 1.0


def test_a_governor_that_is_off_is_on_the_page_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from prometheus_client import REGISTRY

    from paceline.runtime.engine import governor_page
    from paceline.runtime.engine.front_end import DraftCapReport

    monkeypatch.setattr(governor_page, "unfit_for", lambda *_: "Scheduler.schedule is missing")
    DraftCapReport(config(OURS))
    labels = {"replica": "engine-0", "reason": "Scheduler.schedule is missing"}
    assert REGISTRY.get_sample_value("paceline_governor_off_info", labels) == 1.0


def test_a_server_starts_also_where_the_governor_cannot_be_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from paceline.runtime.engine.front_end import DraftCapReport

    odd = config(OURS)
    del odd.parallel_config
    DraftCapReport(odd)
    assert "it is not on the metrics page" in caplog.text


def test_a_governor_that_is_off_keeps_no_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a vLLM release that does not fit the hooks."""
    from paceline.runtime.engine import front_end

    monkeypatch.setattr(front_end, "unfit_for", lambda *_: "nothing fits")
    assert not front_end.honours_draft_caps(config(OURS))
