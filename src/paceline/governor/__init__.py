"""The governor: from measured steps to the next draft length. Pure; see `values` and `policy`."""
