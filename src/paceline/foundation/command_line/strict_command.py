"""`StrictCommand`: a command that refuses an option given twice, and one without a value.

click lets the last of two equal options win, and takes an empty text for a value: `--file ""` would
be the working folder. Scripts produce both by mistake, and the first value is lost without a word.
"""

from __future__ import annotations

from collections import Counter

import click


class StrictCommand(click.Command):
    """Use it as `cls=` of a command whose options protect something."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            values, _, order = self.make_parser(ctx).parse_args(args=list(args))
            counts = Counter(one.name for one in order if isinstance(one, click.Option))
            for one in order:
                name, given = one.opts[-1], values.get(one.name or "")
                if isinstance(one, click.Argument):
                    name = one.make_metavar(ctx).strip("[]")
                elif not (one.multiple or getattr(one, "is_flag", False)) and counts[one.name] > 1:
                    raise click.UsageError(
                        f"{name} is given {counts[one.name]} times; give it once"
                    )
                for value in given if isinstance(given, list | tuple) else [given]:
                    if isinstance(value, str) and not value.strip():
                        raise click.UsageError(f"{name} is empty; give a value, or leave it out")
        return super().parse_args(ctx, args)
