"""The scheduler that drafts as far as a policy says, and everything around one of its steps.

For other rooms: `adaptive_scheduler.AdaptiveScheduler`, exported as
`paceline.engine.AdaptiveScheduler`. Importing the package does not import vLLM.
"""
