"""Start and query a Prometheus server."""

from __future__ import annotations

import contextlib
import math
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from prometheus_programs import find_program

from chaos.fleet import wait_until
from chaos.gateway_process import HTTP

_SCRAPE_INTERVAL = "1s"
"""Also the time limit of a scrape: on a busy machine a page takes some hundred milliseconds."""


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    """A running server."""

    url: str

    def values(self, expr: str) -> list[float]:
        """The value of each series now; NaN is left out."""
        answer = HTTP.get(f"{self.url}/api/v1/query", params={"query": expr}).json()
        assert answer["status"] == "success", answer
        values = [float(series["value"][1]) for series in answer["data"]["result"]]
        return [value for value in values if not math.isnan(value)]

    def firing(self) -> dict[str, dict[str, Any]]:
        """The alerts that fire, by name; one of each name."""
        alerts = HTTP.get(f"{self.url}/api/v1/alerts").json()["data"]["alerts"]
        return {a["labels"]["alertname"]: a for a in alerts if a["state"] == "firing"}

    def wait_firing(self, name: str, within_s: float) -> dict[str, Any]:
        """Wait until an alert of this name fires; returns it."""
        found: list[dict[str, Any]] = []

        def fires() -> bool:
            found.extend(alert for alert in (self.firing().get(name),) if alert)
            return bool(found)

        wait_until(fires, within_s)
        return found[0]

    def is_ready(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return HTTP.get(f"{self.url}/-/ready").status_code == 200
        return False


@contextlib.contextmanager
def start_prometheus(
    folder: Path, target: str, rule_files: Sequence[Path]
) -> Iterator[PrometheusServer]:
    """Scrape `target`, as host:port, under the job `paceline`; stops on exit."""
    program = find_program("prometheus")
    config = {
        "global": {
            "scrape_interval": _SCRAPE_INTERVAL,
            "scrape_timeout": _SCRAPE_INTERVAL,
            "evaluation_interval": "250ms",
        },
        "rule_files": [str(file) for file in rule_files],
        "scrape_configs": [{"job_name": "paceline", "static_configs": [{"targets": [target]}]}],
    }
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    log = folder / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(program, f"--config.file={file}", f"--web.listen-address={address}"),
                f"--storage.tsdb.path={folder / 'data'}",
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        server = PrometheusServer(f"http://{address}")
        wait_until(lambda: process.poll() is not None or server.is_ready(), within_s=60)
        assert process.poll() is None, log.read_text()
        yield server
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
