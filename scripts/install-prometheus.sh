#!/usr/bin/env bash
# Get prometheus and promtool for the tests of alert rules and dashboards.
#
# usage: CLIENTS=.clients scripts/install-prometheus.sh
#
# Programs on the path are used as they are. Otherwise Debian's package is unpacked into
# CLIENTS/prometheus: nothing is installed, and no service starts. Exits with 1 where neither is
# possible; the tests then say what they lack.
set -euo pipefail

: "${CLIENTS:?}"
source "${BASH_SOURCE%/*}/debian-packages.sh"

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    exit 0
fi
folder=$PWD/$CLIENTS/prometheus
echo "Unpacking prometheus into $CLIENTS/prometheus" >&2
if unpack_packages "$folder" echo prometheus; then
    "$folder/usr/bin/promtool" --version >/dev/null 2>&1 && exit 0
fi
echo "install-prometheus: prometheus and promtool are missing. Put them on the path (Debian and" \
    "Ubuntu: apt-get install prometheus), or run this as root where apt-get reaches a mirror." \
    "Without them the tests of alerts and dashboards are skipped; in CI and for root they fail." >&2
exit 1
