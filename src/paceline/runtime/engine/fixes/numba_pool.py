"""Give vLLM's n-gram drafter on a CPU one thread, in a thread pool of Numba's own.

With several threads, Numba's threads and the compute threads compete for the cores: decoding was 4
to 5 times slower on two cores. With one thread in Numba's default pool, which is OpenMP's and thus
shared with the compute threads, an engine of vLLM 0.32.0 computed with one thread only (a drafter
alone did not). Numba reads both variables when it is first imported.

Set only in processes that vLLM started. A program that runs vLLM inside itself may call Numba from
several threads, which this pool does not support; such a program sets the two variables itself if
it can.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import MutableMapping

ENVIRONMENT = {"NUMBA_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "workqueue"}


def choose(environ: MutableMapping[str, str] = os.environ, *, is_child: bool | None = None) -> None:
    """Set the variables that the user has not set. Mutates `environ`, which children inherit.

    `is_child`: whether vLLM started this process; None detects it.
    """
    if is_child is None:
        is_child = multiprocessing.parent_process() is not None
    if is_child:
        for name, value in ENVIRONMENT.items():
            environ.setdefault(name, value)
