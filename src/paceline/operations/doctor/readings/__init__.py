"""Values made of what a server shows: metrics pages, governor states, a log. Pure."""
