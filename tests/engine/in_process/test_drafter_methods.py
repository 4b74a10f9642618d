"""The tables of drafters against the installed vLLM: complete, and right about the draft length.

Importing vLLM takes seconds and starts nothing.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from paceline.runtime.engine.compat.drafters import UNDER_V1, UNDER_V2

pytestmark = pytest.mark.engine

LENGTH = "num_speculative_tokens"


def names_in(literal: Any) -> Iterator[str]:
    """The strings of a Literal, nested ones included."""
    for argument in get_args(literal):
        if isinstance(argument, str):
            yield argument
        else:
            yield from names_in(argument)


def test_every_method_of_vllm_is_in_both_tables() -> None:
    """And no other. Read the code of a method that a later vLLM adds before serving it.

    vLLM resolves each kind of MTP to "mtp" in its configuration.
    """
    from vllm.config.speculative import MTPModelTypes, SpeculativeMethod

    methods = {*names_in(SpeculativeMethod)} - {*names_in(MTPModelTypes)} | {"mtp"}
    assert set(UNDER_V1) == methods
    assert set(UNDER_V2) == methods


def test_vllm_resolves_every_kind_of_mtp() -> None:
    """Read from the source, because building a configuration needs a checkpoint of each kind."""
    tree = ast.parse(source("config/speculative.py"))
    resolved = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "get_args(MTPModelTypes)" in ast.unparse(node.test)
    ]
    assert any("self.method = 'mtp'" in text for text in resolved)


def source(path: str) -> str:
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / path).read_text()


def proposals(folder: str) -> dict[str, ast.FunctionDef]:
    """Class name to its `propose`, for all classes in files under `folder`."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    return {
        node.name: method
        for file in sorted((Path(spec.origin).parent / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "propose"
    }


def use_of_the_length(propose: ast.FunctionDef) -> str:
    """`asserted` (to be the maximum), `used` or `ignored`."""
    for statement in propose.body:
        if isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare):
            [operator], text = statement.test.ops, ast.unparse(statement.test)
            if isinstance(operator, ast.Eq) and LENGTH in text:
                return "asserted"
    names = {
        node.id for part in propose.body for node in ast.walk(part) if isinstance(node, ast.Name)
    }
    return "used" if LENGTH in names else "ignored"


def test_how_model_runner_v1s_drafters_use_the_length() -> None:
    """`UNDER_V1` was written from these methods; read a method again when its result changes."""
    found = {name: use_of_the_length(node) for name, node in proposals("v1/spec_decode").items()}
    assert found == {
        "SpecDecodeBaseProposer": "used",  # draft_model, eagle, eagle3, mtp, dflash
        "Step3p5MTPProposer": "used",  # mtp
        "NgramProposer": "used",
        "NgramProposerGPU": "asserted",
        "SuffixDecodingProposer": "asserted",
        "MedusaProposer": "asserted",
        "ExtractHiddenStatesProposer": "asserted",
    }


def test_how_model_runner_v2s_drafters_use_the_length() -> None:
    """`UNDER_V2` was written from these methods. A class without one inherits its parent's."""
    found = {
        name: use_of_the_length(node)
        for name, node in proposals("v1/worker/gpu/spec_decode").items()
    }
    assert found == {
        "BaseSpeculator": "ignored",  # abstract
        "TargetDependentARSpeculator": "used",  # eagle, eagle3, mtp
        "StandaloneARSpeculator": "ignored",  # draft_model: patched
        "NgramGPUSpeculator": "ignored",  # ngram, ngram_gpu: patched
        "MultiModuleMTPSpeculator": "ignored",  # mtp of several modules: masked
        "DFlashSpeculator": "ignored",  # dflash, dspark: masked
        "ExtractHiddenStatesSpeculator": "ignored",  # refused
    }
