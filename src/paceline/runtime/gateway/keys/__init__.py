"""Keys: authentication on both ports, tenants, and the cache salts that separate tenants.

`record` defines the form of a key and of its line in the file; `ring` decides whose key a request
has; `file` reads and writes, `salt` derives the cache salts, `command` is `paceline keys`. Other
packages use `access`, `ring.Tenant` and `record.KeysUnusable`.
"""
