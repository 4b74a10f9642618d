"""Start `transformers serve`, Hugging Face's own server, on the bundled target model."""

from __future__ import annotations

import sys
from pathlib import Path

from missing_program import skip_or_fail

from other_servers.llamacpp import MODEL, Server
from paceline.demo import target_path
from paceline.foundation.servers.server_process import free_ports

_INSTALLED = Path(__file__).parents[2] / ".clients" / "transformers-serve"
_MISSING = "accelerate, which `transformers serve` needs, is missing: run make test-other-servers"


def transformers_serve(folder: Path) -> Server:
    """The server, not started yet. Without what it needs the test ends (`skip_or_fail`).

    The name of its model is the path of the folder, here a link in the working folder.
    """
    if not (_INSTALLED / "accelerate").exists():
        skip_or_fail(_MISSING)
    (folder / MODEL).symlink_to(target_path())
    (folder / "hub").mkdir()
    port, _ = free_ports()
    command = [
        *(str(Path(sys.executable).with_name("transformers")), "serve", MODEL, "--device", "cpu"),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]
    environment = {
        "PYTHONPATH": str(_INSTALLED),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_CACHE": str(folder / "hub"),  # without a cache, /v1/models answers 500
        "OMP_NUM_THREADS": "1",
    }
    url = f"http://127.0.0.1:{port}"
    return Server(command, url, folder / "transformers.log", environment, folder)
