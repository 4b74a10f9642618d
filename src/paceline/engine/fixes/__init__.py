"""Corrections of vLLM's behaviour on CPUs, each with a test that shows the fault it corrects.

For other packages: each module's `apply`, `numba_pool.choose` and `numba_pool.ENVIRONMENT`, and
`sampler_check.check_workers`.
"""
