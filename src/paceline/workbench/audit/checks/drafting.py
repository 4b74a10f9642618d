"""How many draft tokens the server counts while sampled answers are drawn. Pure.

A test of sampled tokens says nothing about verification if the server did not draft meanwhile: it
may draft greedy answers only, or stop under load.
"""

from __future__ import annotations

from dataclasses import dataclass

MIN_PER_TOKEN = 0.2
"""Draft tokens per token after the first one of its answer: one for each answer of six tokens. A
drafter of one token that always drafts needs at least 0.5."""


@dataclass(slots=True)
class DraftUse:
    """Draft tokens and sampled tokens of all waves whose counts before and after are known."""

    num_tokens: int = 0
    """After the first ones of their answers."""
    num_drafts: float | None = None
    """None: the server does not count them."""
    has_fallen: bool = False
    """The counter fell, so drafts of some wave are not known."""

    def add(self, before: float | None, after: float | None, num_tokens: int) -> None:
        """Add a wave; `before` and `after` are the server's counts, None where it has none."""
        if before is None or after is None:
            return
        if after < before:
            self.has_fallen = True
            return
        self.num_drafts = (self.num_drafts or 0.0) + after - before
        self.num_tokens += num_tokens

    @property
    def is_counted(self) -> bool:
        """Whether the server counts draft tokens."""
        return self.num_drafts is not None or self.has_fallen

    @property
    def is_enough(self) -> bool:
        """Whether the counts show that the sampled tokens were drafted."""
        return self.why_not is None and self.is_counted

    @property
    def why_not(self) -> str | None:
        """Why the counts do not show it; None if they do, or there are none."""
        if self.has_fallen:
            return (
                "the server's counter of draft tokens fell between two sampled answers, as after a "
                "restart or where several servers answer in turn; audit each one on its own port"
            )
        if self.num_drafts is None:
            return None
        if self.num_drafts == 0:
            return (
                "no drafts were seen: the server counted no draft token while the sampled answers "
                "were drawn, so no verification was tested"
            )
        if self.num_drafts < MIN_PER_TOKEN * self.num_tokens:
            return (
                f"too few drafts were seen: the server counted {self.num_drafts:.0f} draft tokens "
                f"while {self.num_tokens} sampled tokens followed the first ones of their answers, "
                f"fewer than {MIN_PER_TOKEN:g} for each"
            )
        return None
