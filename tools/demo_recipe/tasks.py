"""The four tasks of the bundled pair, cut from source with `ast`.

complete   from a signature and its docstring to the whole function
docstring  from a function to its docstring
rename     from a function and two names to the function with one renamed (copying). In held-out
           questions both names are plain words and the function is short; training also has other
           names and longer functions
json       from a signature to a JSON object of its parts

Each builder takes a function and returns a question with its true answer, or None if the function
does not suit the task. Tokens and models play no role here.
"""

from __future__ import annotations

import ast
import json
import keyword
import random
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from demo_recipe.corpus import SourceFile

MAX_FUNCTION_CHARS = 1600
MIN_FUNCTION_CHARS = 60
MAX_PLAIN_RENAME_CHARS = 600
_PLAIN_NAMES = """
address answer argument array block body buffer bytes char child client code column command
content context count current data date default depth element entry error event field file
filename first flag format frame function group handle handler header host index info input item
key kind label last left length level limit line list local lock mask match message method mode
module name node number object offset option order other output package parent parser part path
pattern pid point port position prefix process reader record ref request response result right
root second section sender seq server size socket source start state status step stop stream
string suffix table target test text thread time token total tree type unit user value version
weight width word writer
"""
PLAIN_NAMES = tuple(_PLAIN_NAMES.split())
"""New names of the held-out renames: words that are frequent in the source."""


@dataclass(frozen=True, slots=True)
class Function:
    """The dedented source of a function, and the syntax tree of that text."""

    source: str
    node: ast.FunctionDef


@dataclass(frozen=True, slots=True)
class Example:
    """One question with its true answer."""

    task: str
    question: str
    answer: str


def functions_of(file: SourceFile) -> Iterator[Function]:
    """The functions and methods of a file that are neither trivial nor very long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(file.text)
        lines = file.text.splitlines()
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or node.end_lineno is None:
                continue
            source = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
            if not MIN_FUNCTION_CHARS <= len(source) <= MAX_FUNCTION_CHARS:
                continue
            try:
                parsed = ast.parse(source).body[0]
            except (SyntaxError, IndexError):
                continue  # dedenting broke a continuation line
            if isinstance(parsed, ast.FunctionDef):
                yield Function(source, parsed)


def build_complete(function: Function, rng: random.Random) -> Example | None:
    """Question: signature and docstring. Answer: the whole function."""
    head = _head_with_docstring(function)
    if head is None or len(function.source) - len(head) < 20:
        return None
    wording = rng.choice(
        ["Complete this function:", "Finish this function.", "Write the body of this function:"]
    )
    return Example("complete", f"{wording}\n\n{head}", function.source)


def build_docstring(function: Function, rng: random.Random) -> Example | None:
    """Question: the function without its docstring. Answer: the docstring's text."""
    docstring = ast.get_docstring(function.node)
    bare = _without_docstring(function)
    if docstring is None or bare is None or len(docstring) > 600:
        return None
    wording = rng.choice(
        ["Write a docstring for this function:", "Document this function with a docstring:"]
    )
    return Example("docstring", f"{wording}\n\n{bare}", f'"""{docstring}"""')


def build_rename(
    function: Function, rng: random.Random, vocabulary: Sequence[str]
) -> Example | None:
    """Question: a function, one of its identifiers and a new name. Answer: the renamed function."""
    return _build_rename(function, sorted(_local_names(function.node)), vocabulary, rng)


def build_plain_rename(function: Function, rng: random.Random) -> Example | None:
    """A rename in a short function whose names are plain words, mostly one token each."""
    if len(function.source) > MAX_PLAIN_RENAME_CHARS:
        return None
    old_names = [n for n in sorted(_local_names(function.node)) if re.fullmatch("[a-z]{2,8}", n)]
    return _build_rename(function, old_names, PLAIN_NAMES, rng)


def _build_rename(
    function: Function, old_names: Sequence[str], new_names: Sequence[str], rng: random.Random
) -> Example | None:
    if not old_names:
        return None
    old = rng.choice(old_names)
    new = rng.choice(new_names)
    taken = set(re.findall(r"\w+", function.source))
    if new in taken:
        return None
    renamed = re.sub(rf"\b{re.escape(old)}\b", new, function.source)
    wording = rng.choice(
        ["Rename `{old}` to `{new}` throughout:", "Rename the identifier `{old}` to `{new}`:"]
    )
    return Example("rename", f"{wording.format(old=old, new=new)}\n\n{function.source}", renamed)


def build_json(function: Function, rng: random.Random) -> Example | None:
    """Question: a signature. Answer: its name, parameters and defaults as JSON."""
    arguments = function.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    if not positional and not arguments.kwonlyargs:
        return None
    parameters: list[dict[str, str | None]] = []
    missing = len(positional) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [*[None] * missing, *arguments.defaults]
    pairs = [
        *zip(positional, defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    for parameter, default in pairs:
        parameters.append(
            {"name": parameter.arg, "default": None if default is None else ast.unparse(default)}
        )
    answer = {
        "name": function.node.name,
        "parameters": parameters,
        "varargs": arguments.vararg.arg if arguments.vararg else None,
        "kwargs": arguments.kwarg.arg if arguments.kwarg else None,
    }
    wording = rng.choice(
        ["Turn this signature into JSON:", "Describe this signature as a JSON object:"]
    )
    signature = f"def {function.node.name}({ast.unparse(arguments)}):"
    text = json.dumps(answer, indent=2)
    return Example("json", f"{wording}\n\n{signature}", text) if len(text) < 1200 else None


def identifier_vocabulary(functions: Sequence[Function]) -> list[str]:
    """Names to rename to: the distinct identifiers of the corpus, sorted."""
    found: set[str] = set()
    for function in functions:
        found |= _local_names(function.node)
    return sorted(name for name in found if 3 <= len(name) <= 16 and not keyword.iskeyword(name))


def build_examples(
    functions: Sequence[Function],
    rng: random.Random,
    *,
    vocabulary: Sequence[str] | None = None,
) -> list[Example]:
    """Every task that suits each function, in a random order.

    Without a vocabulary, renames use plain words; with one, any name may be renamed to a name from
    it.
    """
    builders: list[Callable[[Function], Example | None]] = [
        lambda f: build_complete(f, rng),
        lambda f: build_docstring(f, rng),
        lambda f: (
            build_plain_rename(f, rng) if vocabulary is None else build_rename(f, rng, vocabulary)
        ),
        lambda f: build_json(f, rng),
    ]
    examples = [e for f in functions for build in builders if (e := build(f)) is not None]
    rng.shuffle(examples)
    return examples


def _local_names(node: ast.FunctionDef) -> set[str]:
    names = {a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}
    names |= {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return {name for name in names if len(name) > 1 and name not in ("self", "cls")}


def _docstring_span(function: Function) -> tuple[int, int] | None:
    """The docstring's first line and the line after its last, counted from 0."""
    first = function.node.body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
        and first.end_lineno is not None
        and len(function.node.body) > 1
        and function.node.body[1].lineno > first.end_lineno
    ):
        return first.lineno - 1, first.end_lineno
    return None


def _head_with_docstring(function: Function) -> str | None:
    span = _docstring_span(function)
    return None if span is None else "\n".join(function.source.splitlines()[: span[1]])


def _without_docstring(function: Function) -> str | None:
    span = _docstring_span(function)
    if span is None:
        return None
    lines = function.source.splitlines()
    return "\n".join(lines[: span[0]] + lines[span[1] :])
