"""The watch over the drafter's acceptance, by category of requests, in vLLM's engine-core process.

For the scheduler: `drift_watch.DriftWatch`. The other modules decide without clock, log or vLLM:
`text_acceptance` reads one request's verdicts, `category_watch` and `shift_detector` find a change,
`half_hours` says whether acceptance has fallen to stay, and `lost_rate` what that costs.
"""
