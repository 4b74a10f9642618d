"""Probes that keep the estimates of unused draft lengths current, within one time budget.

Other parts use `exploration_budget.FIRST_TOKEN_SHARE` only.
"""
