"""A number on a command line: finite, within bounds.

`click.FloatRange` lets `nan` pass every bound and `inf` pass a missing one. Imports nothing heavy,
so that `--help` stays fast.
"""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteFloat(click.FloatRange):
    """A float option that refuses `nan` and infinities; bounds as of `click.FloatRange`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; a usage error (exit code 2) for anything else."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number
