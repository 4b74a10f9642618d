"""Send streamed requests at a chosen load and record when their chunks arrive.

For other packages: `driver.run_closed_loop` and `run_open_loop`, `client.StreamingClient`,
`arrivals.poisson_arrivals`, `sse.SseDecoder`, and the values in `records`.
"""
