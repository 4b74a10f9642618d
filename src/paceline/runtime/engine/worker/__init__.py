"""Wrappers around vLLM's model runner that run inside its workers.

For other packages: the `WRAPPERS` of a module; `v2_draft_length.patch_worker`,
`trimmed_drafts.report_from_worker`, `early_stop.why_not_in_worker` and
`resting_draft.forget_coverage`, which are called in all workers through vLLM's executor;
`trimmed_drafts.verified_lengths`; `resting_draft.drafter_rests` and `is_full_attention`;
`draft_orders`.
"""
