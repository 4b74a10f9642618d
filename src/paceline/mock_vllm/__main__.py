"""Run the command as `python -m paceline.mock_vllm`, without importing the other commands."""

from paceline.mock_vllm.command import mock_vllm

mock_vllm()
