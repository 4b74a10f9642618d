"""Several processes that serve the data port together and act as one gateway.

The parent process (`pool`, `worker_process`) starts the workers and keeps them running; `worker`
is the program of one worker, started through `__main__`. The two sides exchange `messages` over a
`channel`, every 20 ms. The parent sums up the workers' reports (`worker_totals`) and distributes
the slots of the replicas among them (`slot_allocator`); each worker sees its peers through
`peer_view`.

For other packages: `pool.WorkerPool` and `worker_process.WorkerFailed`.
"""
