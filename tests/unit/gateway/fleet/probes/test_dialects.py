"""Completeness of the table of servers."""

from __future__ import annotations

from paceline.runtime.gateway.fleet.dialects import DIALECTS
from paceline.runtime.gateway.settings.replica_entry import DIALECT_NAMES


def test_every_dialect_that_an_entry_may_name_is_in_the_table() -> None:
    assert set(DIALECTS) == set(DIALECT_NAMES)
