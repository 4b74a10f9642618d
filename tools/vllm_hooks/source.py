"""Read what a vLLM release that is not installed has at the targets of the hooks.

Nothing is imported or run. Files are parsed. A function whose body's names count is also compiled
by itself, which gives the names that the import-based check (`compat.checks`) sees. Followed: names
bound at the top of a module, also under `if` and `try` (the last one counts), imports within the
tree, aliases, and base classes (depth first, which is right for single inheritance). Not followed:
what vLLM replaces at run time, and what a decorator makes of a function. `record` stores the facts.
"""

from __future__ import annotations

import ast
import copy
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

from paceline.runtime.engine.compat.hook import HookFacts, VllmHook, is_judged_by_body

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_MAX_HOPS = 20  # imports and aliases followed for one name; chosen empirically, vLLM needs two


class SourceTree:
    """The Python files below one folder. Reads each file at most once; never runs one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._module = functools.cache(self._read_module)

    def version(self) -> str:
        """Return the version in `vllm/_version.py`. ValueError if it has none."""
        body = self._module("vllm._version")
        for statement in reversed(body or []):
            if (
                isinstance(statement, ast.Assign)
                and isinstance(statement.value, ast.Constant)
                and "version" in {t.id for t in statement.targets if isinstance(t, ast.Name)}
            ):
                return str(statement.value.value)
        raise ValueError(
            f"{self._folder} has no version in vllm/_version.py; give the folder that contains "
            "vllm/, such as an unpacked wheel"
        )

    def find(self, hook: VllmHook) -> HookFacts:
        """Return what this tree has at the hook's target; never raises for a missing one."""
        module, _, path = hook.target.partition(":")
        try:
            node = self._resolve(module, path)
        except LookupError as error:
            return HookFacts("missing", why_missing=str(error.args[0]))
        if isinstance(node, ast.ClassDef):
            return HookFacts("fields", tuple(_fields(node)))
        if is_judged_by_body(hook):
            return HookFacts("mentions", _mentions(node))
        is_method = "." in path
        return HookFacts("parameters", _parameters(node, is_method=is_method))

    def digest(self, hook: VllmHook) -> str | None:
        """Return a fingerprint of the target's code without docstrings and layout; None if missing.

        Equal code has equal fingerprints under the same Python version.
        """
        module, _, path = hook.target.partition(":")
        try:
            node = self._resolve(module, path)
        except LookupError:
            return None
        bare = _WithoutStrings().visit(copy.deepcopy(node))
        return hashlib.sha256(ast.unparse(bare).encode()).hexdigest()[:12]

    def _resolve(self, module: str, path: str) -> _Function | ast.ClassDef:
        first, *rest = path.split(".")
        module, node = self._top_level(module, first)
        for attribute in rest:
            if not isinstance(node, ast.ClassDef):
                raise LookupError(f"{module}:{node.name} is not a class")
            module, node = self._member(module, node, attribute)
        return node

    def _top_level(
        self, module: str, name: str, hops: int = _MAX_HOPS
    ) -> tuple[str, _Function | ast.ClassDef]:
        """Return the class or function that a name leads to, and the module that defines it."""
        body = self._module(module)
        if body is None:
            raise LookupError(f"no module {module}")
        found = _last_binding(body, name)
        if isinstance(found, _Function | ast.ClassDef):
            return module, found
        if hops == 0 or found is None:
            raise LookupError(f"module {module} has no class or function {name}")
        if isinstance(found, ast.ImportFrom):
            imported = next(a.name for a in found.names if (a.asname or a.name) == name)
            return self._top_level(_absolute(found, module), imported, hops - 1)
        return self._top_level(module, found.id, hops - 1)

    def _member(
        self, module: str, owner: ast.ClassDef, name: str
    ) -> tuple[str, _Function | ast.ClassDef]:
        """Return a class's own attribute, or that of the first base class that has it."""
        found = _last_binding(owner.body, name)
        if isinstance(found, _Function | ast.ClassDef):
            return module, found
        if isinstance(found, ast.Name):  # an alias within the class
            return self._member(module, owner, found.id)
        for base in owner.bases:
            try:
                base_module, node = self._base(module, base)
                return self._member(base_module, node, name)
            except LookupError:
                continue  # this base is not in the tree, or has no such attribute
        raise LookupError(f"class {module}:{owner.name} has no {name}")

    def _base(self, module: str, base: ast.expr) -> tuple[str, ast.ClassDef]:
        if isinstance(base, ast.Subscript):  # Generic[…]
            base = base.value
        if not isinstance(base, ast.Name):
            raise LookupError(f"{ast.unparse(base)} is not a plain name")
        base_module, node = self._top_level(module, base.id)
        if not isinstance(node, ast.ClassDef):
            raise LookupError(f"{base.id} is not a class")
        return base_module, node

    def _read_module(self, name: str) -> list[ast.stmt] | None:
        path = self._folder.joinpath(*name.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return ast.parse(file.read_text(), filename=str(file)).body
        return None


class _WithoutStrings(ast.NodeTransformer):
    """Drops docstrings, including those of fields."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_string = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_string else node


def _last_binding(
    body: list[ast.stmt], name: str
) -> _Function | ast.ClassDef | ast.ImportFrom | ast.Name | None:
    found: _Function | ast.ClassDef | ast.ImportFrom | ast.Name | None = None
    for statement in _flat(body):
        if isinstance(statement, _Function | ast.ClassDef):
            if statement.name == name:
                found = statement
        elif isinstance(statement, ast.ImportFrom):
            if any((alias.asname or alias.name) == name for alias in statement.names):
                found = statement
        elif (
            isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.Name)
            and any(isinstance(t, ast.Name) and t.id == name for t in statement.targets)
        ):
            found = statement.value
    return found


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run on import, including those under `if`, `try` and `with`."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            for field in ("body", "orelse", "finalbody"):
                yield from _flat(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from _flat(handler.body)


def _absolute(statement: ast.ImportFrom, module: str) -> str:
    """Return the module that `statement` imports from; `module` is not a package's `__init__`."""
    if statement.level == 0:
        return statement.module or ""
    parent = module.split(".")[: -statement.level]
    return ".".join([*parent, statement.module] if statement.module else parent)


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for statement in _flat(node.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


def _parameters(node: _Function, *, is_method: bool) -> tuple[str, ...]:
    given = node.args
    groups = [*given.posonlyargs, *given.args]
    groups += [given.vararg] if given.vararg else []
    groups += given.kwonlyargs
    groups += [given.kwarg] if given.kwarg else []
    names = tuple(argument.arg for argument in groups)
    is_bound = is_method and any(
        isinstance(decorator, ast.Name) and decorator.id == "classmethod"
        for decorator in node.decorator_list
    )
    return names[1:] if is_bound else names


def _mentions(node: _Function) -> tuple[str, ...]:
    """Return the global and attribute names of the body, as in `co_names`."""
    # Inside a class, because `super()` compiles differently outside of one.
    owner = ast.ClassDef("Owner", bases=[], keywords=[], body=[node], decorator_list=[])
    module = ast.fix_missing_locations(ast.Module([owner], type_ignores=[]))
    outer = compile(module, "<hook>", "exec", dont_inherit=True)
    return _code_within(_code_within(outer, "Owner"), node.name).co_names


def _code_within(code: CodeType, name: str) -> CodeType:
    return next(
        constant
        for constant in code.co_consts
        if isinstance(constant, CodeType) and constant.co_name == name
    )
