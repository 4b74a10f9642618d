"""The n-gram drafter's pool: what is set, and what a user set stays."""

from __future__ import annotations

import multiprocessing
import os

from paceline.engine.fixes import numba_pool


def test_a_process_of_vllm_gets_one_thread_in_a_pool_of_its_own() -> None:
    environ: dict[str, str] = {}
    numba_pool.choose(environ, is_child=True)
    assert environ == {"NUMBA_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "workqueue"}


def test_what_the_user_set_stays() -> None:
    environ = {"NUMBA_THREADING_LAYER": "tbb"}
    numba_pool.choose(environ, is_child=True)
    assert environ == {"NUMBA_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "tbb"}


def test_a_program_of_the_users_stays_as_it_is() -> None:
    """A started process is one of vLLM's; this one, which was not started so, is the user's."""
    environ: dict[str, str] = {}
    numba_pool.choose(environ, is_child=False)
    assert environ == {}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_layer_after_choosing) == "workqueue"


def _layer_after_choosing() -> str | None:
    numba_pool.choose()
    return os.environ.get("NUMBA_THREADING_LAYER")
