"""The errors of a named model that cannot be had."""


class NamedModelMissing(ValueError):
    """A named model cannot be served; the message says what is missing and what to do."""


class PackageMissing(NamedModelMissing):
    """The package that has the model, or that converts it, is not installed."""
