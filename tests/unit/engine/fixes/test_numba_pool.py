"""The variables of the n-gram drafter's thread pool, and when they are set."""

from __future__ import annotations

import multiprocessing
import os

from paceline.runtime.engine.fixes import numba_pool


def test_a_process_of_vllm_gets_one_thread_in_its_own_pool() -> None:
    environ: dict[str, str] = {}
    numba_pool.choose(environ, is_child=True)
    assert environ == {"NUMBA_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "workqueue"}


def test_variables_of_the_user_are_kept() -> None:
    environ = {"NUMBA_THREADING_LAYER": "tbb"}
    numba_pool.choose(environ, is_child=True)
    assert environ == {"NUMBA_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "tbb"}


def test_a_program_of_the_user_is_unchanged() -> None:
    """A child process counts as vLLM's; this process is no child and counts as the user's."""
    environ: dict[str, str] = {}
    numba_pool.choose(environ, is_child=False)
    assert environ == {}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_layer_after_choosing) == "workqueue"


def _layer_after_choosing() -> str | None:
    numba_pool.choose()
    return os.environ.get("NUMBA_THREADING_LAYER")
