"""Pools of TensorRT-LLM and Triton: options that the servers have, and what the gateway needs."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline.runtime.config.sources import load_settings
from paceline.runtime.gateway.fleet.dialects import DIALECTS
from unit.deploy.rendering import of_kind, render
from unit.deploy.test_manifests import rendered

_SERVERS = ("trtllm", "triton")
_ENGINE_KEY = "/etc/paceline/engine-key/key"

_TRTLLM_OPTIONS = {
    # tensorrt_llm/commands/serve.py, 1.3: of the options only those that take a value here
    "--host": str, "--port": int, "--served_model_name": str, "--tp_size": int,
    "--max_seq_len": int, "--max_batch_size": int, "--max_num_tokens": int,
    "--kv_cache_free_gpu_memory_fraction": float, "--config": str,
}  # fmt: skip
_TRTLLM_FLAGS = {"--enable_chunked_prefill"}
_TRITON_OPTIONS = {
    # python/openai/openai_frontend/main.py, 2.73
    "--model-repository": str, "--tokenizer": str, "--backend": str, "--host": str,
    "--openai-port": int, "--default-max-tokens": int,
}  # fmt: skip


def _files() -> dict[str, str]:
    return rendered("other engines")


def _pod(server: str) -> dict[str, Any]:
    pod: dict[str, Any] = of_kind(_files(), "Deployment")[f"engine-{server}"]["spec"]["template"]
    return pod


def _container(server: str) -> dict[str, Any]:
    (container,) = _pod(server)["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def _settings_of(server: str) -> dict[str, str]:
    data: dict[str, str] = of_kind(_files(), "ConfigMap")[f"engine-{server}-settings"]["data"]
    return data


def _values(args: list[str], options: dict[str, type]) -> dict[str, Any]:
    """The value of each option; fails for one that has none or of another type."""
    return {name: kind(args[args.index(name) + 1]) for name, kind in options.items()}


def test_trtllm_serve_gets_options_that_it_has_and_the_limits_of_the_plan() -> None:
    container = _container("trtllm")
    assert container["command"] == ["trtllm-serve"]
    model, *args = container["args"]
    values = _values(args, _TRTLLM_OPTIONS)
    named = {part for part in args if part.startswith("--")}
    assert named == _TRTLLM_OPTIONS.keys() | _TRTLLM_FLAGS
    vllm = of_kind(_files(), "Deployment")["engine-main"]["spec"]["template"]["spec"]
    main = vllm["containers"][0]["args"]
    # A GPU that holds no draft has room for other limits; the context and the GPUs are the same.
    assert model == main[0]
    assert values["--tp_size"] == int(main[main.index("--tensor-parallel-size") + 1])
    assert values["--max_seq_len"] == int(main[main.index("--max-model-len") + 1])
    assert 0 < values["--kv_cache_free_gpu_memory_fraction"] < 1


def test_tritons_frontend_gets_options_that_it_has() -> None:
    container = _container("triton")
    args = container["args"]
    values = _values(args, _TRITON_OPTIONS)
    named = {part for part in args if part.startswith("--")}
    assert named == _TRITON_OPTIONS.keys() | {"--openai-restricted-api"}
    assert values["--backend"] == "vllm"
    # By default a request without max_tokens ends after 16 tokens.
    engine = json.loads(_settings_of("triton")["model.json"])
    assert values["--default-max-tokens"] == engine["max_model_len"]
    assert values["--tokenizer"] == engine["model"]


def test_tritons_model_has_arguments_that_vllm_has() -> None:
    """Its vLLM backend hands model.json to AsyncEngineArgs. The source is parsed: an import of vLLM
    takes seconds."""
    package = importlib.util.find_spec("vllm")
    assert package is not None
    assert package.origin is not None
    source = Path(package.origin).parent / "engine" / "arg_utils.py"
    (engine_args,) = [
        node
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "EngineArgs"
    ]
    known = {
        node.target.id
        for node in engine_args.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    used = json.loads(_settings_of("triton")["model.json"])
    assert used.keys() <= known
    assert {"model", "tensor_parallel_size", "max_model_len", "max_num_seqs"} <= used.keys()


def test_tritons_repository_has_the_model_under_the_id_that_clients_name() -> None:
    settings = _settings_of("triton")
    mounts = {
        mount["mountPath"]: mount["subPath"]
        for mount in _container("triton")["volumeMounts"]
        if mount["name"] == "settings"
    }
    # A model repository is <repository>/<model>/<version>/; its folders are the ids.
    assert mounts == {
        "/repository/Qwen3-32B-FP8-triton/config.pbtxt": "config.pbtxt",
        "/repository/Qwen3-32B-FP8-triton/1/model.json": "model.json",
    }
    assert set(mounts.values()) == settings.keys()
    args = _container("triton")["args"]
    assert args[args.index("--model-repository") + 1] == "/repository"
    assert 'backend: "vllm"' in settings["config.pbtxt"]
    assert "KIND_MODEL" in settings["config.pbtxt"]  # more than one GPU needs it


def test_the_settings_of_trtllm_serve_are_mounted_where_it_reads_them() -> None:
    args = _container("trtllm")["args"]
    (mount,) = [
        mount for mount in _container("trtllm")["volumeMounts"] if mount["name"] == "settings"
    ]
    assert mount["mountPath"] == args[args.index("--config") + 1]
    assert mount["subPath"] in _settings_of("trtllm")


def test_servers_report_what_the_gateway_reads() -> None:
    """The load of a replica: without these settings the routes are missing or empty."""
    trtllm = yaml.safe_load(_settings_of("trtllm")["config.yaml"])
    assert trtllm == {"return_perf_metrics": True, "enable_iter_perf_stats": True}
    triton = _settings_of("triton")
    assert "REPORT_CUSTOM_METRICS" in triton["config.pbtxt"]
    assert json.loads(triton["model.json"])["disable_log_stats"] is False


@pytest.mark.parametrize("server", _SERVERS)
def test_probes_ask_the_route_that_the_gateway_polls(server: str) -> None:
    container = _container(server)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {
            "path": DIALECTS[server].health_path,
            "port": "http",
        }
    ready, live = container["readinessProbe"], container["livenessProbe"]
    # A busy server leaves the service before it is restarted.
    assert (
        ready["periodSeconds"] * ready["failureThreshold"]
        < live["periodSeconds"] * live["failureThreshold"]
    )


def test_the_gateway_loads_its_settings_and_knows_both_pools(tmp_path: Path) -> None:
    text = of_kind(_files(), "ConfigMap")["paceline-settings"]["data"]["paceline.yaml"]
    file = tmp_path / "paceline.yaml"
    file.write_text(text)
    replicas = {entry.name: entry for entry in load_settings({}, {}, file).settings.replicas}
    known = {
        server: (replicas[server].dns, replicas[server].dialect, replicas[server].key_file)
        for server in ("main", *_SERVERS)
    }
    assert known == {
        "main": ("engine-main.paceline.svc:8000", "vllm", Path(_ENGINE_KEY)),
        # trtllm-serve has no keys: only the network policy keeps others away.
        "trtllm": ("engine-trtllm.paceline.svc:8000", "trtllm", None),
        "triton": ("engine-triton.paceline.svc:8000", "triton", Path(_ENGINE_KEY)),
    }


def test_triton_requires_the_key_as_gateways_send_it() -> None:
    container = _container("triton")
    args = container["args"]
    at = args.index("--openai-restricted-api")
    routes, header, value = args[at + 1 : at + 4]
    # Health and metrics stay open: the kubelet has no key.
    assert set(routes.split(",")) == {"inference", "model-repository"}
    assert (header, value) == ("authorization", "Bearer $(ENGINE_KEY)")
    (key,) = [entry for entry in container["env"] if entry["name"] == "ENGINE_KEY"]
    assert key["valueFrom"]["secretKeyRef"] == {"name": "paceline-engine-key", "key": "key"}


def test_each_pool_has_a_model_id_of_its_own() -> None:
    args = _container("trtllm")["args"]
    assert args[args.index("--served_model_name") + 1] == "Qwen/Qwen3-32B-FP8-trtllm"
    # A pool grows by the queue of its own model.
    for server, name in (
        ("trtllm", "Qwen/Qwen3-32B-FP8-trtllm"),
        ("triton", "Qwen3-32B-FP8-triton"),
    ):
        files = render(
            "--tier", "enterprise", "Qwen/Qwen3-32B-FP8", "--gpu", "h100", "--pool", server
        )
        scaled = of_kind(files, "ScaledObject")[f"engine-{server}"]["spec"]
        assert f'model="{name}"' in scaled["triggers"][0]["metadata"]["query"]


@pytest.mark.parametrize("server", _SERVERS)
def test_changed_settings_start_new_pods(server: str) -> None:
    """A server reads its settings once."""
    before = _pod(server)
    changed = render(
        "--tier", "mid-market", "--pool", "trtllm", "--pool", "triton", "--max-model-len", "2048"
    )
    after = of_kind(changed, "Deployment")[f"engine-{server}"]["spec"]["template"]
    assert before != after
    if server == "triton":
        annotation = "paceline/settings"
        assert (
            before["metadata"]["annotations"][annotation]
            != (after["metadata"]["annotations"][annotation])
        )


def test_an_image_of_your_own_replaces_that_of_the_engine() -> None:
    image = f"registry.example/triton@sha256:{'0' * 64}"
    files = render("--tier", "mid-market", "--pool", f"triton={image}")
    pod = of_kind(files, "Deployment")["engine-triton"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == image
    assert image in files["README.md"]
    assert "Nobody has started them" in files["README.md"]
    assert "Nobody has started them" not in rendered("mid-market")["README.md"]


def test_pods_of_several_pools_share_a_machine() -> None:
    """Four pods of 2 GPUs on machines of 4 GPUs (AWS' g6e.12xlarge, $10.4926 an hour, 730 hours a
    month) need two; at most they are six, on three.
    """
    month = 730 * 10.4926
    summary = json.loads(_files()["deployment.json"])
    assert summary["gpus"] == 8
    assert summary["cost"]["usd_per_month"] == pytest.approx(2 * month, abs=0.01)
    assert summary["cost"]["usd_per_month_at_most"] == pytest.approx(3 * month, abs=0.01)


def test_a_model_id_with_a_colon_gives_triton_a_folder_that_kubernetes_mounts() -> None:
    files = render("--tier", "mid-market", "--pool", "triton", "--served-name", "team/qwen:8b")
    (container,) = of_kind(files, "Deployment")["engine-triton"]["spec"]["template"]["spec"][
        "containers"
    ]
    paths = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert "/repository/qwen-8b-triton/1/model.json" in paths
    assert not any(":" in path for path in paths)
