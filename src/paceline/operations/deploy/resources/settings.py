"""The gateway's `paceline.yaml` as a ConfigMap."""

from __future__ import annotations

from typing import Any

from paceline.operations.deploy.resources.naming import (
    ADMIN_PORT,
    DATA_PORT,
    ENGINE_PORT,
    GATEWAY,
    PROBE_PORT,
    SETTINGS_MAP,
    Resource,
    metadata,
    service_name,
)
from paceline.operations.deploy.resources.other_engines import SERVERS_WITH_KEY
from paceline.operations.deploy.resources.pods import start_s
from paceline.operations.deploy.values import Deployment, Pool
from paceline.operations.deploy.yaml_text import render_yaml

SETTINGS_FOLDER = "/etc/paceline"
KEYS_FOLDER = f"{SETTINGS_FOLDER}/keys"
ENGINE_KEY_FILE = f"{SETTINGS_FOLDER}/engine-key/key"


def settings_map(deployment: Deployment) -> Resource:
    """The ConfigMap with the settings."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(deployment, SETTINGS_MAP, GATEWAY),
        "data": {"paceline.yaml": render_yaml(gateway_settings(deployment))},
    }


def gateway_settings(deployment: Deployment) -> dict[str, Any]:
    """The settings, in the form of paceline.yaml."""
    times = deployment.times
    settings: dict[str, Any] = {
        "server": {
            "host": "0.0.0.0",
            "port": DATA_PORT,
            "admin_host": "0.0.0.0",
            "admin_port": ADMIN_PORT,
            "probe_host": "0.0.0.0",
            "probe_port": PROBE_PORT,
            "lame_duck_s": times.lame_duck_s,
            "drain_timeout_s": times.drain_s,
        },
        "keys": {
            "file": f"{KEYS_FOLDER}/keys",
            "admin_key_file": f"{KEYS_FOLDER}/admin-keys",
            "salt_file": f"{KEYS_FOLDER}/salt",
        },
    }
    if deployment.gateways == 0:
        pool = deployment.pools[0]
        start = {"start_timeout_s": start_s(deployment, pool)}
        settings["engine"] = {**pool.engine_settings, **start}
        settings["admission"] = {"max_in_flight": pool.slots}
        return settings
    settings["engine"] = {"replicas": 0}
    settings["fleet"] = {"dns_period_s": times.dns_period_s}
    settings["replicas"] = [
        *(_pool_entry(deployment, pool) for pool in deployment.pools),
        *(
            {
                "dns": f"{backend.host}:{backend.port}",
                "name": f"{backend.dialect}-{index}",
                "dialect": backend.dialect,
            }
            for index, backend in enumerate(deployment.backends)
        ),
    ]
    return settings


def _pool_entry(deployment: Deployment, pool: Pool) -> dict[str, Any]:
    return {
        "dns": f"{service_name(pool)}.{deployment.namespace}.svc:{ENGINE_PORT}",
        "name": pool.name,
        **({} if pool.server == "vllm" else {"dialect": pool.server}),
        **({"key_file": ENGINE_KEY_FILE} if pool.server in SERVERS_WITH_KEY else {}),
        "max_in_flight": pool.slots,
    }
