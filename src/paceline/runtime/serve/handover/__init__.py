"""A running `paceline serve` hands its ports and its engines over to a new one.

`taking_over` is the side of the new process, `handing_over` that of the old one with `outgoing`,
what it offers. `owner_address` decides who owns the engines, `messages` are the values that travel
over a `connection`, `fleet_changes` carries the operators' changes to the replicas, and
`changed_settings` names what the new process would start an engine with and the old one did not.

    new process                          old process
    ───────────                          ───────────
    connects                             sends the Offer: sockets, engines, changes so far
    starts what was not offered,
    polls the replicas, serves the ports
    sends Take                           refuses changes by operators, and waits for those under way
                                         checks that it can hand over, else sends Refused
                                         gives up the owner's address, sends Released: final changes
    binds the owner's address,
    sends Owned, owns the engines        accepts no more connections, leaves the engines
    restarts of engines wait             completes its requests, ends, which closes the connection

Only the owner stops or restarts engines. An engine lives as long as a process holds a copy of its
guard's pipe, and both do from the Offer to Owned. What happens to the engines when a process ends:

| moment | the old process ends | the new process ends or fails |
|---|---|---|
| before Released | (1) the new one owns them | (2) the old one continues |
| between Released and Owned | (1) the new one owns them | (2) the old one continues |
| after Owned | they run on | (3) they end |

(1) The address is free, so the new process can bind it, with or without `Released`; without it, the
changes by operators are those of the Offer. A process that gets SIGTERM or SIGINT after the Offer
answers Take until it has completed its requests; then it leaves the offered engines, like one that
is killed. (2) The address is free again, or still bound by the
old process, which accepts changes again. (3) The last copies of the pipes close. Requests in flight
of the process that ends are lost in any case.

A new process that does not answer within `messages.TIMEOUT_S` counts as ended; when it continues,
it finds the address bound, and fails. It also fails when the old process does not answer: that one
remains the owner. Between Offer and Take the new process may start engines, so it has
`handing_over.take_timeout_s`; others that want to take over are refused in the meantime.
"""
