"""Make the mutants of a module: each has one small change that a test should notice.

Comparisons, arithmetic, boolean operators, conditions and loops are changed by operators of
cosmic-ray. Two operators are added here: one scales constants, because cosmic-ray's change of 1 is
too small for 64 and too large for 0.05; one deletes statements, because cosmic-ray has none.

cosmic-ray would replace each operator by every other one. Where a test notices one of them it
mostly notices all, so that many mutants make a score look better. Here each operator is replaced by
its inverse, and each comparison by its negation and its neighbour at the boundary. The flags
`frozen` and `slots` of a dataclass are left alone: mypy refuses what they refuse at run time.
"""

from __future__ import annotations

import ast
import difflib
import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_COSMIC_RAY = (
    *(f"ReplaceBinaryOperator_{change}" for change in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul")),
    *(f"ReplaceBinaryOperator_{change}" for change in ("FloorDiv_Mul", "Mod_Mul", "Pow_Mul")),
    *(f"ReplaceComparisonOperator_{change}" for change in ("Eq_NotEq", "NotEq_Eq")),
    *(f"ReplaceComparisonOperator_{change}" for change in ("Lt_GtE", "Lt_LtE", "LtE_Gt", "LtE_Lt")),
    *(f"ReplaceComparisonOperator_{change}" for change in ("Gt_LtE", "Gt_GtE", "GtE_Lt", "GtE_Gt")),
    *(f"ReplaceComparisonOperator_{change}" for change in ("Is_IsNot", "IsNot_Is")),
    *(f"ReplaceUnaryOperator_{change}" for change in ("Delete_USub", "Delete_Not")),
    *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop"),
)
_SMALL = 8
"""Integers up to this one are changed by 1, other constants by a factor of 2."""
_LOGGING = "logger."
"""Deleted log lines are not counted: tests that assert every one would only repeat it."""
_CHECKED_BY_MYPY = re.compile(r"\b(frozen|slots)=(True|False)")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed version of a module."""

    operator: str
    line: int
    change: str
    """The removed and the added lines."""
    source: str


def make_mutants(source: str) -> Iterator[Mutant]:
    """Yield the distinct mutants of a module, in the order of their lines."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import MutationVisitor

    tree = get_ast(source)
    copies = pickle.dumps(tree)  # quicker to copy than to parse
    signatures = _signatures(source)
    seen = {source}
    mutants = []
    for name, operator in _operators():
        num_positions = sum(
            len(list(operator.mutation_positions(node))) for node in ast_nodes(tree)
        )
        for occurrence in range(num_positions):
            mutated = MutationVisitor(occurrence, operator).walk(pickle.loads(copies)).get_code()
            if mutated in seen or not _is_mutant(signatures, mutated):
                continue
            seen.add(mutated)
            line, change = _difference(source, mutated)
            if is_checked_by_mypy(change):
                continue
            mutants.append(Mutant(name, line, change, mutated))
    yield from sorted(mutants, key=lambda mutant: (mutant.line, mutant.operator, mutant.change))


def is_checked_by_mypy(change: str) -> bool:
    """Whether only `frozen` or `slots` of a dataclass differs between the lines of the change."""
    removed, *added = (line[1:] for line in change.splitlines())
    if not removed.strip().startswith("@dataclass("):
        return False
    return [_CHECKED_BY_MYPY.sub("", line) for line in added] == [_CHECKED_BY_MYPY.sub("", removed)]


def _operators() -> Iterator[tuple[str, Any]]:
    import cosmic_ray.plugins

    for name in _COSMIC_RAY:
        yield name, cosmic_ray.plugins.get_operator(f"core/{name}")()
    yield from (("ChangeNumber", _change_number()), ("DeleteStatement", _delete_statement()))


def _change_number() -> Any:
    """An operator of cosmic-ray that makes a constant larger, and one that makes it smaller."""
    import parso
    from cosmic_ray.ast import is_number
    from cosmic_ray.operators.operator import Operator

    class ChangeNumber(Operator):  # type: ignore[misc]
        def mutation_positions(self, node: Any) -> Any:
            if is_number(node) and isinstance(eval(node.value), int | float):
                yield from [(node.start_pos, node.end_pos)] * 2

        def mutate(self, node: Any, index: int) -> Any:
            value = eval(node.value)
            if isinstance(value, int) and value <= _SMALL:
                changed = (value + 1, value - 1)[index]
            elif isinstance(value, int):
                changed = (2 * value, value // 2)[index]
            else:
                changed = (2 * value, value / 2)[index] if value else (1.0, -1.0)[index]
            return parso.python.tree.Number(f" ({changed!r})", node.start_pos)

        @classmethod
        def examples(cls) -> Any:
            return ()

    return ChangeNumber()


def _delete_statement() -> Any:
    """An operator of cosmic-ray that replaces a call, an assignment or a raise by `pass`."""
    import parso
    from cosmic_ray.operators.operator import Operator

    class DeleteStatement(Operator):  # type: ignore[misc]
        def mutation_positions(self, node: Any) -> Any:
            if node.type == "simple_stmt" and _can_be_deleted(node):
                yield node.start_pos, node.end_pos

        def mutate(self, node: Any, index: int) -> Any:
            nothing = parso.parse("pass\n").children[0]
            nothing.get_first_leaf().prefix = node.get_first_leaf().prefix
            return nothing

        @classmethod
        def examples(cls) -> Any:
            return ()

    return DeleteStatement()


def _can_be_deleted(statement: Any) -> bool:
    """Whether deleting it changes behaviour rather than definitions: not a docstring, not an import
    and not at the top of a module or class."""
    scope = statement.parent
    while scope is not None and scope.type not in ("funcdef", "classdef", "file_input"):
        scope = scope.parent
    if scope is None or scope.type != "funcdef":
        return False
    code = statement.get_code().strip()
    kept = ("import ", "from ", "pass", "...", "break", "continue", "return", "assert", _LOGGING)
    return not code.startswith(kept) and statement.children[0].type not in ("string", "strings")


def _is_mutant(signatures: list[int], mutated: str) -> bool:
    """Whether it compiles; cosmic-ray also takes the `*` of a signature for a multiplication."""
    try:
        return _signatures(mutated) == signatures
    except SyntaxError:
        return False


def _signatures(source: str) -> list[int]:
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return [len(function.args.posonlyargs) for function in functions]


def _difference(before: str, after: str) -> tuple[int, str]:
    """Return the first changed line and the change."""
    old, new = before.splitlines(), after.splitlines()
    line = next(
        (i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), len(new)
    )
    lines = [*difflib.unified_diff(old, new, n=0, lineterm="")][2:]
    changed = [text for text in lines if text[0] in "+-"]
    return line + 1, "\n".join(f"{text[0]} {text[1:].strip()}" for text in changed)
