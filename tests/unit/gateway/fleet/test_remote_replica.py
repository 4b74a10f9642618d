"""Choice of the model id of a remote replica."""

from __future__ import annotations

import pytest

from paceline.gateway.fleet.prober import ListedModel, ReplicaProbeFailed
from paceline.gateway.fleet.remote_replica import choose_model


def test_the_configured_model_wins_over_the_listed_ones() -> None:
    listed = [ListedModel("base", 4096), ListedModel("adapter", 1024)]
    assert choose_model(listed, None) == ListedModel("base", 4096)
    assert choose_model(listed, "adapter") == ListedModel("adapter", 1024)
    assert choose_model(listed, "other") == ListedModel("other")
    with pytest.raises(ReplicaProbeFailed, match="set `model` in its entry"):
        choose_model([], None)
