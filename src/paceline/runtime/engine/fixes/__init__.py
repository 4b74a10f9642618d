"""Corrections of vLLM's behaviour on CPUs, each with a test that shows the fault it corrects.

For other packages: each module's `WRAPPERS` or `apply`, `numba_pool.choose` and
`numba_pool.ENVIRONMENT`, `sampler_check.check_workers`, and `undrafted_requests.forbids_drafts`.
"""
