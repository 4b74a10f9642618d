"""Traffic with known truth: classes of requests, phases, and their arrivals."""
