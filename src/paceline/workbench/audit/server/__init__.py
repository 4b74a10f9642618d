"""The audited server over HTTP: requests, answers, what it supports, and the true distributions.

For other rooms: `Server`, `Transport`, `Truth`, `ServerError`.
"""
