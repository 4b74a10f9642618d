#!/usr/bin/env bash
# Get headless Chromium for the tests of the live view in a browser.
#
# usage: CLIENTS=.clients scripts/install-chromium.sh
#
# A chromium or google-chrome on the path is used as it is. Otherwise Debian's package, with the
# libraries that this machine lacks, is unpacked into CLIENTS/chromium: nothing is installed. Exits
# with 1 where neither is possible; the tests then say what they lack.
set -euo pipefail

: "${CLIENTS:?}"
source "${BASH_SOURCE%/*}/debian-packages.sh"

for name in chromium-headless-shell chromium google-chrome; do
    if command -v "$name" >/dev/null; then
        exit 0
    fi
done
folder=$PWD/$CLIENTS/chromium
shell=$folder/usr/lib/chromium/chromium-headless-shell
packages() { # those that apt would install: the browser, and the libraries that are missing
    apt-get install --simulate --no-install-recommends chromium-headless-shell |
        awk '$1 == "Inst" { print $2 }'
}
echo "Unpacking chromium-headless-shell into $CLIENTS/chromium" >&2
if unpack_packages "$folder" packages; then
    libraries=$(find "$folder/usr/lib" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
    LD_LIBRARY_PATH=$libraries "$shell" --no-sandbox --version >/dev/null 2>&1 && exit 0
fi
echo "install-chromium: Chromium is missing. Put chromium or google-chrome on the path (Debian:" \
    "apt-get install chromium-headless-shell), or run this as root where apt-get reaches a mirror." \
    "Without it the tests in tests/browser are skipped; in CI and for root they fail." >&2
exit 1
