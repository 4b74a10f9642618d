"""Several processes serve the data port: how are they run, and how do they act as one gateway?

The head (`pool`, `worker_process`) starts the processes and keeps them running, `work` is what each
of them does. They talk over a `channel` in `messages`. `totals` is what the head makes of what they
tell, `peer_workers` what each of them knows of the others.
"""
