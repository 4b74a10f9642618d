"""The group size is the largest that divides all layers, or the one that is asked for."""

from __future__ import annotations

import pytest

from paceline.foundation.compatibility.number_formats import format_rows
from paceline.foundation.quantized.schemes import SCHEMES, choose_group_size


def test_the_largest_fitting_group_is_chosen() -> None:
    assert choose_group_size(SCHEMES["awq"], {384, 1024}, None) == 128
    assert choose_group_size(SCHEMES["gptq"], {64, 96}, None) == 32
    assert choose_group_size(SCHEMES["awq"], {64, 128}, None) == 64


def test_a_group_size_that_does_not_fit_is_refused_with_those_that_do() -> None:
    assert choose_group_size(SCHEMES["awq"], {64, 128}, 32) == 32
    with pytest.raises(ValueError, match="may be: 64, 32"):
        choose_group_size(SCHEMES["awq"], {64, 128}, 128)


def test_dimensions_without_a_group_are_refused() -> None:
    with pytest.raises(ValueError, match="multiples of 32"):
        choose_group_size(SCHEMES["awq"], {48}, None)


@pytest.mark.parametrize("name", ["w8a8", "fp8", "nvfp4"])
def test_schemes_without_groups_take_no_group_size(name: str) -> None:
    assert choose_group_size(SCHEMES[name], {48}, None) is None
    with pytest.raises(ValueError, match="has no groups"):
        choose_group_size(SCHEMES[name], {64}, 32)


def test_every_scheme_is_in_the_table_of_formats() -> None:
    known = {name for row in format_rows() for name in row.formats}
    assert {scheme.format for scheme in SCHEMES.values()} <= known
