"""The contract of a policy as checks that anyone can run: `find_broken_promises`.

`paceline.check_policy` runs them on a policy given by name, definition or class.
"""

from paceline.runtime.governor.contract.promises import BrokenPromise, find_broken_promises

__all__ = ["BrokenPromise", "find_broken_promises"]
