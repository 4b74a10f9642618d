"""The capture of prompts for the training of drafts: off by default, sampled, redacted, bounded.

For other rooms: `prompt_capture.PromptCapture`, which a data port feeds; `segments.CaptureFolder`,
which the admin port shows and empties; `results.CaptureResult`, for the metrics.
"""
