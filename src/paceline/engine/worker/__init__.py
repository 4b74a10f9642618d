"""Wrappers around vLLM's model runner that run inside its workers.

For other packages: each module's `apply`; `v2_draft_length.patch_worker` and
`trimmed_drafts.report_from_worker`, which the scheduler calls in all workers through vLLM's
executor; `trimmed_drafts.verified_lengths`; `resting_draft.drafter_rests`.
"""
