"""Facts about hooks, read from Python files without importing them."""

from __future__ import annotations

from pathlib import Path

import pytest
from vllm_hooks.source import SourceTree

from paceline.runtime.engine.compat.hook import HookFacts, VllmHook, judge_hook

SCHEDULER = '''
import os
from vllm.core import Base as Interface
from vllm.other import moved as renamed

if os.name == "nt":
    def chosen(a): ...
else:
    def chosen(a, b): ...

class Output:
    """A docstring."""
    num_tokens: int
    """Another."""
    later: str = ""
    plain = 3

class Scheduler(Interface):
    def __init__(self, config, *rest, flag=False, **more):
        local = config.width
        self.running = [part.length for part in rest]
        print(local)

    def own(self, output): ...

    alias = own

    @classmethod
    def make(cls, config): ...

    @staticmethod
    def free(config): ...

class Narrow(Scheduler):
    pass

shortcut = Scheduler
'''


@pytest.fixture
def tree(tmp_path: Path) -> SourceTree:
    files = {
        "vllm/__init__.py": "",
        "vllm/_version.py": "version: str\n__version__ = version = '0.26.0'\n",
        "vllm/scheduler.py": SCHEDULER,
        "vllm/core.py": "class Base:\n    def inherited(self, x): ...\n",
        "vllm/other/__init__.py": "from vllm.other.deep import moved\n",
        "vllm/other/deep.py": "def moved(y, /, z): ...\n",
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return SourceTree(tmp_path)


def hook(target: str, *expected: str, is_body: bool = False) -> VllmHook:
    return VllmHook(
        name="x",
        target=target,
        expected=expected,
        part="governor",
        purpose="",
        upstream="",
        remove_when="",
        is_body=is_body,
    )


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("Scheduler.own", ("self", "output")),
        ("Scheduler.alias", ("self", "output")),
        ("Scheduler.make", ("config",)),
        ("Scheduler.free", ("config",)),
        ("Narrow.own", ("self", "output")),
        ("Narrow.inherited", ("self", "x")),
        ("shortcut.own", ("self", "output")),
        ("chosen", ("a", "b")),
        ("renamed", ("y", "z")),
    ],
)
def test_parameters_are_found_through_aliases_imports_and_bases(
    tree: SourceTree, path: str, parameters: tuple[str, ...]
) -> None:
    """Also the last of several definitions; a bound `cls` is left out."""
    assert tree.find(hook(f"vllm.scheduler:{path}")) == HookFacts("parameters", parameters)


def test_fields_are_the_annotated_attributes(tree: SourceTree) -> None:
    """An attribute without annotation is not a field of a dataclass."""
    assert tree.find(hook("vllm.scheduler:Output")) == HookFacts("fields", ("num_tokens", "later"))


def test_a_body_mentions_globals_and_attributes_but_not_local_variables(
    tree: SourceTree,
) -> None:
    """As in `co_names` of the function; a comprehension is a separate function."""
    found = tree.find(hook("vllm.scheduler:Scheduler.__init__"))
    assert found.kind == "mentions"
    assert {"width", "running", "print"} <= set(found.names)
    assert not {"local", "rest", "config", "self"} & set(found.names)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("vllm.gone:Scheduler", "no module vllm.gone"),
        ("vllm.scheduler:gone", "module vllm.scheduler has no class or function gone"),
        ("vllm.scheduler:os", "module vllm.scheduler has no class or function os"),
        ("vllm.scheduler:Narrow.gone", "class vllm.scheduler:Narrow has no gone"),
        ("vllm.scheduler:chosen.gone", "vllm.scheduler:chosen is not a class"),
    ],
)
def test_a_missing_target_is_described(tree: SourceTree, target: str, why: str) -> None:
    """The message names the missing module, name or attribute."""
    assert tree.find(hook(target)) == HookFacts("missing", why_missing=why)
    assert judge_hook(hook(target), tree.find(hook(target))) == f"{target} is missing: {why}"
    assert tree.digest(hook(target)) is None


def test_the_version_is_read_from_the_tree(tree: SourceTree, tmp_path: Path) -> None:
    """The error for a folder without vLLM says which folder to give."""
    assert tree.version() == "0.26.0"
    with pytest.raises(ValueError, match="give the folder that contains vllm/"):
        SourceTree(tmp_path / "vllm").version()


@pytest.mark.parametrize(
    ("text", "is_same"),
    [
        ('def f(x):\n    """What it does."""\n    return x + 1  # why\n', True),
        ("def f(x):\n\n    return (x +\n            1)\n", True),
        ("def f(x):\n    return x + 2\n", False),
    ],
)
def test_a_digest_depends_on_code_only(tmp_path: Path, text: str, is_same: bool) -> None:
    """Comments, docstrings and layout do not change it."""
    digests = []
    for name, body in (("old", "def f(x):\n    return x + 1\n"), ("new", text)):
        folder = tmp_path / name / "vllm"
        folder.mkdir(parents=True)
        (folder / "m.py").write_text(body)
        digests.append(SourceTree(folder.parent).digest(hook("vllm.m:f")))
    assert None not in digests
    assert (digests[0] == digests[1]) is is_same
