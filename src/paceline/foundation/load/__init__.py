"""Send streamed requests at a chosen load and record when their chunks arrive.

For other packages: `driver.LoadRun`, `run_closed_loop` and `run_open_loop`,
`client.StreamingClient`, `arrivals.poisson_arrivals` and `schedule_arrivals`,
`loop_lag.watched_loop`, `sse.SseDecoder`, and the values in `loads` and `records`.
"""
