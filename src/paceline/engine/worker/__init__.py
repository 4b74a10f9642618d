"""Wrappers around vLLM's model runner that run inside its workers.

For other packages: each module's `apply`; `v2_draft_length.patch_workers`, by which the scheduler
patches all workers through vLLM's executor; `resting_draft.drafter_rests`.
"""
