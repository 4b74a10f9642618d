"""The checks, one idea a file, and how they are applied."""

from paceline.operations.doctor.checks.registry import CHECKS, judge, judge_log_only

__all__ = ["CHECKS", "judge", "judge_log_only"]
