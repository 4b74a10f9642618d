"""Choose a replica for each attempt: filter by state and breaker, then rank by load.

Other packages use `Router`, `Breakers` and `ProgressWatch`. A routing rule is a `ReplicaRanker`
(`ranker`), one file in `rankers/`.
"""
