"""`DoctorError`: the server cannot be diagnosed."""


class DoctorError(Exception):
    """There is no diagnosis. The message says why, and what to do."""
