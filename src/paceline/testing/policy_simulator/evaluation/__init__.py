"""Named traces, the arms compared on them, the oracle, and summaries of runs."""
