"""Turn the records of a run and a server's counters into figures, and write them to files.

For other packages: `summary.summarize`, `counters.find_counters` and `finish_counters`,
`environment.describe_environment`, `files.write_document`.
"""
