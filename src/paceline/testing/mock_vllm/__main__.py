"""Run the command as `python -m paceline.testing.mock_vllm`, without importing the other commands."""

from paceline.testing.mock_vllm.command import mock_vllm

mock_vllm()
