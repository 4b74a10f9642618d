"""Recorded traces: `loading` reads a file into the values of `entries`.

`forms` knows the public traces of requests, `agents` those of sessions, `rows` reads one record,
and `units` decides what the numbers of time are. Other packages find the names in
`paceline.foundation.workloads`.
"""
