"""The search space: its file, its cells, its default."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.workbench.tune.space import SearchSpace, default_space, load_space, parse_space
from paceline.workbench.tune.values import LiveSetting, RestartConfig, TuneError

FILE = """\
restart:
  engine.draft: [ngram, none]
  --max-num-seqs: [32, 128]
live:
  draft_length: [policy, 0, 3]
  max_in_flight: [4, 8]
"""


def test_a_file_gives_all_combinations(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(FILE)
    space = load_space(file)
    assert [one.label for one in space.restart_configs()] == [
        "engine.draft=ngram --max-num-seqs=32",
        "engine.draft=ngram --max-num-seqs=128",
        "engine.draft=none --max-num-seqs=32",
        "engine.draft=none --max-num-seqs=128",
    ]
    ngram = space.restart_configs()[0]
    assert space.live_settings(ngram, "auto") == tuple(
        LiveSetting(length, limit) for length in (None, 0, 3) for limit in (4, 8)
    )
    assert space.num_cells == 24


def test_a_server_without_a_drafter_has_no_draft_length_to_try() -> None:
    space = parse_space({"live": {"draft_length": ["policy", 2], "max_in_flight": [4, 8]}})
    assert space.restart_configs() == [RestartConfig(())]
    assert space.live_settings(RestartConfig(()), "none") == (
        LiveSetting(None, 4),
        LiveSetting(None, 8),
    )
    draft = RestartConfig((("engine.draft", "none"),))
    assert len(space.live_settings(draft, "ngram")) == 2


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the file is []; it must be a mapping"),
        ({"liv": {}}, "the file has the unknown key 'liv'; allowed: restart, live"),
        ({"live": {}}, "live.max_in_flight is None; it must be a list"),
        ({"live": {"max_in_flight": [0]}}, "live.max_in_flight is [0]; give integers of at least"),
        ({"live": {"max_in_flight": [4, 4]}}, "live.max_in_flight lists a value twice"),
        (
            {"live": {"max_in_flight": [4], "draft_length": ["fast"]}},
            "live.draft_length has the value 'fast'",
        ),
        (
            {"restart": {"engine.draft": "ngram"}, "live": {"max_in_flight": [4]}},
            "restart.engine.draft is 'ngram'; it must be a list",
        ),
        (
            {"restart": {"engine.schedule": [[1]]}, "live": {"max_in_flight": [4]}},
            "restart.engine.schedule has the value [1]",
        ),
        (
            {"restart": {"--x": list(range(3000))}, "live": {"max_in_flight": [4]}},
            "the space has 3000 cells; at most 2000",
        ),
    ],
)
def test_wrong_files_are_refused_with_the_reason(document: object, message: str) -> None:
    with pytest.raises(TuneError) as error:
        parse_space(document)
    assert message in str(error.value)


def test_a_file_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text("live: [")
    with pytest.raises(TuneError, match=r"--space .*space.yaml cannot be read"):
        load_space(file)


def test_the_default_compares_the_configured_drafter_with_others() -> None:
    space = default_space("auto", 8)
    assert space.restart["engine.draft"] == ("auto", "ngram", "none")
    assert default_space("ngram", 8).restart["engine.draft"] == ("ngram", "none")
    assert space.draft_lengths == (None, 1, 3, 5)
    assert default_space("auto", 4).draft_lengths == (None, 1, 3)


def test_a_space_needs_values() -> None:
    with pytest.raises(TuneError, match="at least one value"):
        SearchSpace({"engine.draft": ()}, (None,), (4,))
