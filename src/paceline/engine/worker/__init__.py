"""Wrappers around vLLM's model runner that run inside its workers.

For other packages: each module's `apply`; the questions that the scheduler asks all workers through
vLLM's executor (`workers_have_replay_scoring`, `head_fraction_of_workers`, `patch_workers`);
`resting_draft.drafter_rests`; the names under which orders and reports travel (`probe_reports`).
"""
