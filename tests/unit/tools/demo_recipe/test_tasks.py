"""Questions cut from source are well formed and have true answers."""

import ast
import json
import random
import re

import pytest
from demo_recipe import tasks
from demo_recipe.corpus import SourceFile

SOURCE = '''
class Greeter:
    def greet(self, name, *rest, greeting="Hello", loud: bool = False, **options):
        """Return a greeting for the name."""
        message = greeting + ", " + name
        if loud:
            message = message.upper()
        return message
'''


@pytest.fixture
def function() -> tasks.Function:
    [found] = tasks.functions_of(SourceFile("greet.py", SOURCE))
    return found


def test_functions_are_cut_whole_and_dedented(function: tasks.Function) -> None:
    assert function.source.startswith("def greet(self, name")
    assert function.source.endswith("    return message")
    ast.parse(function.source)


def test_complete_asks_with_the_head_for_the_whole_function(function: tasks.Function) -> None:
    example = tasks.build_complete(function, random.Random(0))
    assert example is not None
    assert example.question.endswith('"""Return a greeting for the name."""')
    assert "upper" not in example.question
    assert example.answer == function.source


def test_docstring_is_taken_out_of_the_question(function: tasks.Function) -> None:
    example = tasks.build_docstring(function, random.Random(0))
    assert example is not None
    assert "Return a greeting" not in example.question
    assert example.answer == '"""Return a greeting for the name."""'


def test_rename_replaces_the_identifier_everywhere_and_nothing_else(
    function: tasks.Function,
) -> None:
    seen = set()
    for seed in range(20):
        example = tasks.build_rename(function, random.Random(seed), ["fresh_name"])
        assert example is not None
        old = example.question.split("`")[1]
        seen.add(old)
        assert old not in re.findall(r"\w+", example.answer)
        assert example.answer.replace("fresh_name", old) == function.source
    assert seen == {"name", "greeting", "loud", "message"}


def test_there_is_no_rename_to_a_name_in_use(function: tasks.Function) -> None:
    assert tasks.build_rename(function, random.Random(0), ["greeting"]) is None


def test_a_plain_rename_is_of_words_to_words_in_a_short_function(function: tasks.Function) -> None:
    seen = set()
    for seed in range(60):
        example = tasks.build_plain_rename(function, random.Random(seed))
        if example is not None:
            old, new = example.question.split("`")[1:4:2]
            seen.add(old)
            assert new in tasks.PLAIN_NAMES
            assert example.answer == re.sub(rf"\b{old}\b", new, function.source)
    assert seen == {"name", "greeting", "loud", "message"}
    long = tasks.Function(function.source + "\n" + "#" * 600, function.node)
    assert tasks.build_plain_rename(long, random.Random(0)) is None


def test_json_names_parameters_defaults_and_stars(function: tasks.Function) -> None:
    example = tasks.build_json(function, random.Random(0))
    assert example is not None
    assert json.loads(example.answer) == {
        "name": "greet",
        "parameters": [
            {"name": "self", "default": None},
            {"name": "name", "default": None},
            {"name": "greeting", "default": "'Hello'"},
            {"name": "loud", "default": "False"},
        ],
        "varargs": "rest",
        "kwargs": "options",
    }


def test_the_same_seed_builds_the_same_examples(function: tasks.Function) -> None:
    first = tasks.build_examples([function], random.Random(3))
    again = tasks.build_examples([function], random.Random(3))
    assert first == again
    assert {e.task for e in first} == {"complete", "docstring", "rename", "json"}
