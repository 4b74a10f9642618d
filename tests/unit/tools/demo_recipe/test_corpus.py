"""The split of the corpus, and a folder without source."""

from __future__ import annotations

from pathlib import Path

import pytest
from demo_recipe import corpus


def test_the_split_depends_on_the_name_alone() -> None:
    names = [f"package/module_{n}.py" for n in range(5000)]
    share = sum(map(corpus.is_held_out, names)) / len(names)
    assert 0.03 < share < 0.05  # 40 in 1,000


def test_a_folder_without_source_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no readable Python source"):
        list(corpus.read_standard_library(tmp_path))
