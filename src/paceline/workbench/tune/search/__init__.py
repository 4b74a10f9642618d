"""The search as decisions: which trials to run next, and which cell wins.

For other rooms: `search` (a generator of rounds), `Round`, `ServerFailure`, `Outcome`, `Finalist`.
"""

from paceline.workbench.tune.search.halving import search
from paceline.workbench.tune.search.outcome import Finalist, Outcome, TriedCell
from paceline.workbench.tune.search.rounds import Round, RoundResult, Search, ServerFailure

__all__ = [
    "Finalist",
    "Outcome",
    "Round",
    "RoundResult",
    "Search",
    "ServerFailure",
    "TriedCell",
    "search",
]
