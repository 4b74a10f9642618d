"""What `paceline deploy render` refuses, and how it says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from unit.deploy.rendering import of_kind, render, run_deploy


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tier", "startup", "--replicas", "2"), "one pod with one replica"),
        (("--tier", "startup", "--gateways", "2"), "has one pod, which is the gateway"),
        (("--tier", "startup", "--backend", "vllm=a.b:8000"), "need the tier mid-market"),
        (("--tier", "mid-market", "--replicas", "3", "--max-replicas", "2"), "not above"),
        (("--tier", "mid-market", "--replicas", "65"), "from 1 to 64"),
        (("--tier", "mid-market", "--backend", "vllm"), "DIALECT=HOST:PORT"),
        (("--tier", "mid-market", "--backend", "olla=a.b:8000"), "trtllm"),
        (("--tier", "mid-market", "--backend", "vllm=a.b:99999"), "DIALECT=HOST:PORT"),
        (("--tier", "mid-market", "--backend", "vllm=a.b:²"), "DIALECT=HOST:PORT"),
        (("--tier", "mid-market", "--backend", "vllm=a.b:" + "9" * 5000), "DIALECT=HOST:PORT"),
        (("--tier", "startup", "--pool", "trtllm"), "one pod with one replica"),
        (("--tier", "mid-market", "--pool", "tgi"), "ENGINE=IMAGE; engines are trtllm, triton"),
        (("--tier", "mid-market", "--pool", "trtllm="), "no reference to an image"),
        (("--tier", "mid-market", "--pool", "trtllm=a b"), "no reference to an image"),
        (("--tier", "mid-market", *2 * ("--pool", "triton")), "each engine once"),
        (
            ("--tier", "mid-market", "--nodes-per-replica", "2", "--pool", "trtllm"),
            "leave --pool out",
        ),
        (("--tier", "mid-market", "--served-name", "--port"), "the model id '--port'"),
        (("--tier", "mid-market", "--gpu-product", "NVIDIA-L40S-"), "--gpu-product"),
        (("--tier", "mid-market", "--gpu-product", "NVIDIA-é"), "--gpu-product"),
        (("--tier", "mid-market", "--long-context", "32768"), "no pool for long contexts"),
        (("--tier", "mid-market", "--namespace", "Paceline"), "--namespace"),
        (("--tier", "mid-market", "--image", "a b"), "no reference to an image"),
        (("--tier", "mid-market", "--prometheus-url", "prometheus:9090"), "--prometheus-url"),
        (("--tier", "mid-market", "--gpu", "rtx-4090"), "--gpu-product"),
        (("--tier", "mid-market", "--gpu", "cpu", "--gpu-product", "x"), "--gpu cpu"),
        (("--tier", "mid-market", "--gpu", "h900"), "not in the catalogue"),
        (("Qwen/Qwen2.5-72B-Instruct", "--tier", "startup"), "does not fit on 1 x l4"),
        (("--tier", "mid-market", "--tensor-parallel", "16"), "--nodes-per-replica"),
        (
            ("--tier", "mid-market", "--nodes-per-replica", "2", "--draft", "ngram"),
            "leave --draft out",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused_and_nothing_written(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    folder = tmp_path / "out"
    result = run_deploy("render", *arguments, "--out", str(folder))
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not folder.exists()


def test_a_model_folder_needs_a_claim(tmp_path: Path) -> None:
    config = {
        "architectures": ["Qwen2ForCausalLM"], "hidden_size": 896, "intermediate_size": 4864,
        "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
        "vocab_size": 151936, "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
    }  # fmt: skip
    model = tmp_path / "mine"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(config))
    refused = run_deploy("render", str(model), "--tier", "startup", "--out", str(tmp_path / "out"))
    assert refused.exit_code == 2
    assert "--model-claim" in refused.output
    files = render(str(model), "--tier", "startup", "--model-claim", "models", "--draft", "none")
    text = of_kind(files, "ConfigMap")["paceline-settings"]["data"]["paceline.yaml"]
    engine = yaml.safe_load(text)["engine"]
    assert (engine["model"], engine["served_name"]) == ("/models/mine", "mine")


def test_another_engine_is_a_replica_of_its_dialect() -> None:
    files = render("--tier", "mid-market", "--backend", "trtllm=trt.models.svc:9000")
    text = of_kind(files, "ConfigMap")["paceline-settings"]["data"]["paceline.yaml"]
    assert {"dns": "trt.models.svc:9000", "name": "trtllm-0", "dialect": "trtllm"} in (
        yaml.safe_load(text)["replicas"]
    )
    egress = of_kind(files, "NetworkPolicy")["gateway"]["spec"]["egress"]
    assert 9000 in {port["port"] for rule in egress for port in rule["ports"]}


def test_without_the_operator_pods_have_annotations_for_prometheus() -> None:
    files = render("--tier", "mid-market", "--monitoring", "annotations")
    template = of_kind(files, "Deployment")["gateway"]["spec"]["template"]
    assert template["metadata"]["annotations"]["prometheus.io/port"] == "8001"
    assert of_kind(files, "PodMonitor") == {}
    rules = of_kind(files, "ConfigMap")["paceline-rules"]["data"]["paceline.rules.yaml"]
    assert 'up{job="paceline"}' in rules
    # Prometheus names the job after its own configuration: without this, no rule finds a gateway.
    assert '`job="paceline"`' in files["README.md"]
    assert "paceline-rules" in files["README.md"]


def test_the_readme_says_what_the_operator_must_select() -> None:
    needs = render("--tier", "mid-market")["README.md"]
    for field in ("podMonitorSelector", "ruleSelector", "podMonitorNamespaceSelector"):
        assert field in needs


def test_the_pool_for_long_contexts_has_a_model_id_of_its_own() -> None:
    files = render("--tier", "enterprise", "--long-context", "65536")
    engines = {
        name: pod["spec"]["template"]["spec"]["containers"][0]["args"]
        for name, pod in of_kind(files, "Deployment").items()
        if name != "gateway"
    }
    named = {
        name: (
            args[args.index("--served-model-name") + 1],
            args[args.index("--max-model-len") + 1],
        )
        for name, args in engines.items()
    }
    assert named["engine-long"] == ("meta-llama/Llama-3.1-70B-Instruct-long", "65536")
    assert named["engine-main"][0] == "meta-llama/Llama-3.1-70B-Instruct"
