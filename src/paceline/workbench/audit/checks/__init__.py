"""The checks of an audit: each sends requests, and returns what it found as values.

For other rooms: `check_greedy`, `check_feature`, `FEATURES`, `check_acceptance`, `SampledCheck` and
their results.
"""
