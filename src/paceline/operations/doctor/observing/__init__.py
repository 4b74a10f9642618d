"""Read a server over HTTP, and a log file."""
