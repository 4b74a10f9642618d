"""The recording of one engine, made on demand in vLLM's engine-core process.

For the scheduler: `recorder.Recorder`. The format is `paceline.foundation.recording`.
"""
