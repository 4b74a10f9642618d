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

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    exit 0
fi
folder=$PWD/$CLIENTS/prometheus
download() { # needs the lists of packages, but no root
    rm -rf "$folder" && mkdir -p "$folder" && cd "$folder" &&
        apt-get download -qq -o APT::Sandbox::User=root prometheus
}
if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    echo "Unpacking prometheus into $CLIENTS/prometheus" >&2
    if (download 2>/dev/null) ||
        { [[ $(id -u) == 0 ]] && apt-get update -qq && (download); }; then
        dpkg-deb --extract "$folder"/prometheus_*.deb "$folder"
        rm "$folder"/prometheus_*.deb
        "$folder/usr/bin/promtool" --version >/dev/null 2>&1 && exit 0
    fi
fi
echo "install-prometheus: prometheus and promtool are missing. Put them on the path (Debian and" \
    "Ubuntu: apt-get install prometheus), or run this as root where apt-get reaches a mirror." \
    "Without them the tests of alerts and dashboards are skipped; in CI and for root they fail." >&2
exit 1
