"""The workload and arrivals of `paceline bench run` as a script of another tool: `paceline bench
export`.

`traffic` fixes every request and its time, `scripts` puts them into a script for locust or k6.
"""
