#!/usr/bin/env bash
# Install the real clients whose sessions `make test-clients` runs.
#
# usage: VENV=.venv CLIENTS=.clients scripts/install-clients.sh
#
# The Python clients go into a folder of their own, which is on the path of the sessions only; the
# Node clients into tests/clients/node. Versions are exact: requirements/clients.lock and
# package-lock.json. A repetition changes nothing. Nothing is compiled: a session imports a small part,
# and leaves that part compiled.
set -euo pipefail

: "${VENV:?}" "${CLIENTS:?}"

echo "Installing $(grep -c '^[A-Za-z0-9]' requirements/clients.lock) packages of Python clients" >&2
rm -rf "$CLIENTS/python"
PIP_DISABLE_PIP_VERSION_CHECK=1 "$VENV/bin/python" -m pip install --quiet --no-deps --no-compile \
    --require-hashes --target "$CLIENTS/python" -r requirements/clients.lock
# 15,000 files; their data sets are downloaded when a task runs.
rm -rf "$CLIENTS/python/lm_eval/tasks"

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        echo "Installing nodejs and npm" >&2
        apt-get update -qq && apt-get install -qq --yes --no-install-recommends nodejs npm
    fi
fi
command -v npm >/dev/null || {
    echo "install-clients: node and npm are needed for two of the clients; install them first" >&2
    exit 1
}
echo "Installing the clients for Node $(node --version)" >&2
npm ci --prefix tests/clients/node --no-audit --no-fund --loglevel=error >&2
