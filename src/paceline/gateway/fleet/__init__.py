"""Which replicas are there, do they answer, and how loaded are they?

`entry` is what an operator writes, `dialects` what differs between servers; `load` and
`error_bodies` read their pages, `watch` and `membership` decide, `prober` and `resolver` ask;
`member` and `local` keep what is known, and `fleet` has them all and owns the tasks. Import from
the modules: this package imports none of them, so that the gateway's settings can hold a value of
it.
"""
