"""Refuse vLLM's Rust front end under `AdaptiveScheduler`.

`VLLM_USE_RUST_FRONTEND=1 vllm serve` replaces the API server by a program (`vllm-rs`) that loads no
plugins. The metrics page would lack what `front_end` reports. Worse, the program does not refuse
`min_p` and `logit_bias` under speculation, as vLLM's Python front end does, and Model Runner V1
ignores both then: the answer would not have the distribution that was asked for.

`paceline serve` starts the Python front end, whatever the variable says (`launch.command`).
"""

from __future__ import annotations

import functools
import logging
import sys
from typing import Any

from paceline.runtime.engine.compat.checks import check_hooks, unfit_for

logger = logging.getLogger("vllm.paceline.rust_front_end")

_MARK = "__paceline_refuses_rust__"
_SCHEDULER = "AdaptiveScheduler"


def apply() -> bool:
    """Wrap the start of several or foreign API servers; return whether it is. Idempotent.

    Does nothing outside of `vllm serve`, which alone starts the program.
    """
    serve: Any = sys.modules.get("vllm.entrypoints.cli.serve")
    if serve is None:
        return False
    misfit = unfit_for("rust_front_end", check_hooks("rust_front_end"))
    if misfit:
        logger.warning("Paceline: vLLM's Rust front end is not refused: %s", misfit)
        return False
    if not hasattr(serve.run_multi_api_server, _MARK):
        serve.run_multi_api_server = _refusing(serve.run_multi_api_server)
    return True


def _refusing(stock: Any) -> Any:
    @functools.wraps(stock)
    def run_multi_api_server(args: Any) -> Any:
        from vllm import envs

        if envs.VLLM_USE_RUST_FRONTEND and str(args.scheduler_cls).endswith(_SCHEDULER):
            raise ValueError(
                "VLLM_USE_RUST_FRONTEND is set; AdaptiveScheduler allows only vLLM's Python front "
                "end, because the Rust one loads no plugins and accepts requests that cannot be "
                "served under speculation. Unset the variable, or remove --scheduler-cls."
            )
        return stock(args)

    setattr(run_multi_api_server, _MARK, True)
    return run_multi_api_server
