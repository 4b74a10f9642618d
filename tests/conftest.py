"""The environment of all tests, and what it costs to run thousands of them in one process.

No test verifies a certificate. An HTTP client reads every authority of a certificate file when it
is created, which takes 30 to 60 ms of processor time, and nothing of a folder.

Programs that tests start and interrupt have the usual reaction to SIGINT. A shell ignores it in
commands that it starts in the background, and their children inherit that.

Engines measure no costs when they start, which takes up to 10 s and writes to the home folder. They
serve the bundled pair also where the chat model is installed, which takes longer.

After the collection, modules and tests are millions of objects that stay. They are excluded from
garbage collection, which otherwise takes 0.7 s each time.
"""

from __future__ import annotations

import gc
import os
import signal

os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = "/nonexistent"
os.environ["PACELINE_COSTS_FOLDER"] = ""
os.environ["PACELINE_ENGINE__MODEL"] = "bundled"
gc.disable()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Collect garbage again from here on, of objects that are created from here on."""
    gc.freeze()
    gc.enable()
