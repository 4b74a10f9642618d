"""Turn the records of a run and a server's counters into figures, and write them to files.

Figures: `summary.summarize`, `slo.measure_goodput`, `adaptation.adaptation_lag`,
`bootstrap.bootstrap_figures`, `series.build_series`. Warnings about them: `validity`, with
`client_health` and `saturation`. For other packages also `counters.find_counters` and
`finish_counters`, `environment.describe_environment`, `files.write_document`.
"""
