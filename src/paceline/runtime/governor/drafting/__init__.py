"""Ending drafts early, and verifying a part of them, by how sure the draft model is.

For other packages: `drafting_round.DraftingRound`.
"""
