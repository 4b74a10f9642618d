#!/usr/bin/env bash
# Check the rendered manifests of all tiers with checkov, the Containerfiles with hadolint,
# deploy/compose.yaml with the schema of the Compose Specification, and deploy/paceline.service with
# systemd-analyze, where that is installed.
#
# usage: PYTHON=python3.11 VENV=.venv CLIENTS=.clients scripts/check-deploy.sh
#
# Both linters are installed into CLIENTS/deploy-check, from requirements/deploy-check.lock. Exits
# with 1 if one of them finds something.
set -euo pipefail

: "${PYTHON:?}" "${VENV:?}" "${CLIENTS:?}"

linters=$CLIENTS/deploy-check
stamp=$linters/.installed-$(sha256sum requirements/deploy-check.lock | cut -c1-16)
if [[ ! -e $stamp ]]; then
    echo "Installing checkov and hadolint into $linters" >&2
    rm -rf "$linters"
    "$PYTHON" -m venv "$linters"
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$linters/bin/python" -m pip install --quiet --no-deps \
        --require-hashes -r requirements/deploy-check.lock
    touch "$stamp"
fi

rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT
image=registry.example/paceline@sha256:$(printf '0%.0s' {1..64})
render() { # folder, options
    "$VENV/bin/paceline" deploy render --image "$image" --out "$rendered/$1" "${@:2}" >/dev/null
}
for tier in startup mid-market enterprise; do
    render "$tier" --tier "$tier"
done
render annotations --tier mid-market --monitoring annotations
render engines --tier enterprise --pool "trtllm=$image" --pool "triton=$image"
render nodes Qwen/Qwen3-32B --tier mid-market --gpu l40s --tensor-parallel 2 --nodes-per-replica 2
render claim --tier startup --model-claim models

result=0
"$linters/bin/hadolint" deploy/Containerfile.* || result=1
# CKV_K8S_35 wants keys as files: vLLM and huggingface_hub read theirs from the environment, and
# Triton gets its own from an argument, which the kubelet takes from the environment.
# --skip-download: no descriptions of the findings from a service.
LOG_LEVEL=ERROR "$linters/bin/checkov" --directory "$rendered" --framework kubernetes --quiet --compact \
    --skip-download --skip-check CKV_K8S_35 || result=1
"$VENV/bin/python" -m pytest -q tests/unit/deploy/test_single_machine.py || result=1
command -v systemd-analyze >/dev/null ||
    echo "check-deploy: systemd-analyze is missing (package systemd): the unit was not checked" >&2
[[ $result == 0 ]] && echo "check-deploy: checkov, hadolint, the Compose Specification: nothing found"
exit $result
