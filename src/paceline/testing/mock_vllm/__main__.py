"""Run the command as a module, without importing the other commands."""

from paceline.testing.mock_vllm.command import mock_vllm

mock_vllm()
