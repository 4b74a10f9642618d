"""Start what was built, ask it for a completion, and stop it, in a network of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

from containerfile.chroots import Built, Report, entered

_ASK = """
import http.client, json, sys
gateway = http.client.HTTPConnection("127.0.0.1", 8000, timeout=120)
if sys.argv[1] == "ready":
    gateway.request("GET", "/ready")
    sys.exit(gateway.getresponse().status != 200)
gateway.request("GET", "/v1/models")
(model, *_) = json.load(gateway.getresponse())["data"]
body = {"model": model["id"], "prompt": "def add(a, b):", "max_tokens": 16, "temperature": 0}
gateway.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
answer = gateway.getresponse()
print(json.dumps({"status": answer.status, "answer": json.loads(answer.read())}))
"""
SERVED_LOG = "served.log"
_PERIOD_S = 2.0
_STOP_S = 60.0


def serve_once(built: Built, log: Path, limit_s: float, report: Report) -> None:
    """Run ENTRYPOINT and CMD until one completion is answered. Raises `RuntimeError`."""
    context = built.context
    command = entered(
        built.root,
        context,
        [*context.entry_point, *context.command],
        variables=context.environment,
        namespaces=["--net"],
    )
    start = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            inside = _inside(process)
            # Loopback of the namespace is down at first.
            subprocess.run([*_enter(inside), "ip", "link", "set", "lo", "up"], check=True)
            while subprocess.run([*_enter(inside), "python3", "-c", _ASK, "ready"],
                                 check=False, stderr=subprocess.DEVNULL).returncode:  # fmt: skip
                if process.poll() is not None:
                    raise RuntimeError(f"it ended with {process.returncode}; see {log}")
                if time.monotonic() - start > limit_s:
                    raise RuntimeError(f"it was not ready within {limit_s:.0f} s; see {log}")
                time.sleep(_PERIOD_S)
            report(f"ready in {time.monotonic() - start:.1f} s")
            asked = subprocess.run([*_enter(inside), "python3", "-c", _ASK, "complete"],
                                   check=True, capture_output=True, text=True)  # fmt: skip
            answer = json.loads(asked.stdout)
            if answer["status"] != 200:
                raise RuntimeError(f"the completion was refused: {answer}")
            report(f"a completion: {answer['answer']['choices'][0]['text']!r}")
            subprocess.run(["kill", f"-{signal.SIGTERM.value}", inside], check=True)
            stopped = time.monotonic()
            process.wait(_STOP_S)
            report(f"SIGTERM: ended with {process.returncode} in "
                   f"{time.monotonic() - stopped:.1f} s")  # fmt: skip
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _inside(process: subprocess.Popen[bytes]) -> str:
    """The process that unshare has started: the first of its namespace."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    for _ in range(100):
        if found := children.read_text().split():
            return found[0]
        time.sleep(0.05)
    raise RuntimeError("unshare has started nothing")


def _enter(inside: str) -> list[str]:
    return ["nsenter", "--net", "--target", inside]
