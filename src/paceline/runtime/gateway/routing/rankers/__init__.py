"""The routing rules, one file each, and the one that the gateway uses.

To add a rule, add a file with a class that has the method of `ReplicaRanker`. The contract test
finds it by itself. `DEFAULT_RANKER` names the rule in use.
"""

from paceline.runtime.gateway.routing.ranker import ReplicaRanker
from paceline.runtime.gateway.routing.rankers.least_load import LeastLoad

DEFAULT_RANKER: type[ReplicaRanker] = LeastLoad

__all__ = ["DEFAULT_RANKER"]
