"""Which thread pool does vLLM's n-gram drafter take on a CPU?

With several threads, Numba's and the compute threads fight for the cores: decoding was 4 to 5 times
slower on two. With one, in Numba's default pool, which is OpenMP's as that of the compute threads
is, an engine of vLLM 0.32.0 was seen to compute with one thread (a drafter by itself did not). So:
one thread, in a pool of Numba's own. Numba reads both variables when it is first imported.

Only in processes of vLLM's own. A program that runs vLLM inside itself may call Numba from several
threads, which that pool does not bear; such a program sets the two variables itself if it can.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import MutableMapping

ENVIRONMENT = {"NUMBA_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "workqueue"}


def choose(environ: MutableMapping[str, str] = os.environ, *, is_child: bool | None = None) -> None:
    """Set what the user has not set, for this process and those it starts. Mutates `environ`.

    `is_child`: whether vLLM started the process; None finds out.
    """
    if is_child is None:
        is_child = multiprocessing.parent_process() is not None
    if is_child:
        for name, value in ENVIRONMENT.items():
            environ.setdefault(name, value)
