"""The vLLM scheduler whose draft length a policy chooses, and the code around each of its steps.

For other packages: `adaptive_scheduler.AdaptiveScheduler`, exported as
`paceline.engine.AdaptiveScheduler`. Importing the package does not import vLLM.
"""
