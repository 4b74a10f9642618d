"""Keys: authentication on both ports, tenants, and the cache salts that separate tenants.

`record` has the form of a key and of its line in the file, `ring` the decision whose key it is;
`file` reads and writes, `salt` derives the cache salts, `command` is `paceline keys`. Other rooms
use `access`, `ring.Tenant` and `record.KeysUnusable`.
"""
