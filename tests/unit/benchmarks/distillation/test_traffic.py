"""Chats about a package: each about another function, and none that asks the same as another."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.distillation.traffic import chats_about, package_folder

_FUNCTION = '''
def {name}(self, value, default=None):
    """Return the value of {name}, or the default."""
    if value is None:
        return default
    return self.table[value]
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of 20 functions, each twice under the same name."""
    functions = [_FUNCTION.format(name=f"find_{letter}") for letter in "abcdefghijklmnopqrst"]
    for file in ("one.py", "two.py"):
        (tmp_path / file).write_text("".join(functions))
    return tmp_path


def test_every_function_is_asked_about_once(package: Path) -> None:
    chats = chats_about(package, ["json", "docstring"], 10, 64, "a")
    questions = [chat["messages"][0]["content"] for chat in chats]
    assert sorted(chat["task"] for chat in chats) == ["docstring"] * 10 + ["json"] * 10
    assert len({question.split("def ")[1].split("(")[0] for question in questions}) == 20


@pytest.mark.parametrize("seed", "abcdef")
def test_equal_signatures_are_asked_about_once(tmp_path: Path, seed: str) -> None:
    """A question that is in the training and in the test would make the draft look better."""
    source = _FUNCTION.format(name="find")
    other = source.replace("self.table", "self.other_table")
    (tmp_path / "one.py").write_text(source + other + _FUNCTION.format(name="lookup"))
    chats = chats_about(tmp_path, ["json"], 2, 64, seed)
    subjects = sorted(chat["reference"].split('"name": "')[1].split('"')[0] for chat in chats)
    assert subjects == ["find", "lookup"]


def test_the_seed_decides_which_functions(package: Path) -> None:
    first, again, other = (chats_about(package, ["json"], 5, 64, seed) for seed in "aab")
    assert first == again != other


def test_too_few_functions_are_an_error(package: Path) -> None:
    with pytest.raises(ValueError, match="too few functions for 11 of docstring"):
        chats_about(package, ["json", "docstring"], 11, 64, "a")


def test_a_package_is_found_without_importing_it() -> None:
    assert (package_folder("paceline") / "cli.py").is_file()
    with pytest.raises(ValueError, match="'no_such_package'; it must be one that is installed"):
        package_folder("no_such_package")
