"""The paths of vLLM's server, read from its files without importing it."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

_ADDERS = {
    "get", "post", "put", "delete", "patch", "head", "options", "route", "api_route", "websocket",
    "add_route", "add_api_route", "mount", "Mount", "Route",
}  # fmt: skip

VLLM_0_32 = """
/abort_requests /classify /cohere/v2/chat /cohere/v2/chat/render /collective_rpc /detokenize /docs
/fault_tolerance/apply /fault_tolerance/status /finish_weight_update /generative_scoring
/get_world_size /health /inference/v1/abort_requests /inference/v1/generate
/init_weight_transfer_engine /invocations /is_paused /is_scaling_elastic_ep /is_sleeping
/kv_event_sources /load /metrics /pause /ping /pooling /ready /readyz /release_kv_cache_memory
/rerank /reset_encoder_cache /reset_mm_cache /reset_prefix_cache /resume /scale_elastic_ep /score
/server_info /shutdown_weight_transfer_engine /sleep /start_draft_weight_update /start_profile
/start_weight_update /static /stop_profile /tokenize /tokenizer_info /update_weight_version
/update_weights /v1/audio/transcriptions /v1/audio/translations /v1/chat/completions
/v1/chat/completions/batch /v1/chat/completions/derender /v1/chat/completions/render
/v1/completions /v1/completions/derender /v1/completions/render /v1/embeddings
/v1/load_lora_adapter /v1/messages /v1/messages/count_tokens /v1/messages/render /v1/models
/v1/realtime /v1/rerank /v1/responses /v1/responses/render /v1/responses/{response_id}
/v1/responses/{response_id}/cancel /v1/score /v1/systemone /v1/unload_lora_adapter /v2/embed
/v2/rerank /version /wake_up /weight_checker /weight_info
""".split()  # noqa: SIM905 - one path per line would be a page
"""What `routes_of` finds in vLLM 0.32.0."""

FASTAPI = ["/openapi.json", "/redoc", "/docs/oauth2-redirect"]
"""What FastAPI adds by itself."""


def vllm_folder() -> Path:
    """The folder of the installed vLLM. Raises `ModuleNotFoundError` if it is not installed."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("vLLM is not installed; `make install-dev` installs it")
    return Path(spec.submodule_search_locations[0])


def routes_of(vllm: Path) -> Iterator[str]:
    """Every path that is given to a router, an app or a mount as a literal."""
    for file in (vllm / "entrypoints").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            function, path = node.func, node.args[0]
            name = getattr(function, "attr", getattr(function, "id", ""))
            value = path.value if isinstance(path, ast.Constant) else None
            if name in _ADDERS and isinstance(value, str) and value.startswith("/"):
                yield value
