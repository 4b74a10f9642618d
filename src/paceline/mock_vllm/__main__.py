"""`python -m paceline.mock_vllm`: the command without the other commands' imports."""

from paceline.mock_vllm.command import mock_vllm

mock_vllm()
