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
download() { # needs the lists of packages, but no root
    local wanted
    wanted=$(packages)
    rm -rf "$folder" && mkdir -p "$folder" && cd "$folder" &&
        # shellcheck disable=SC2086  # one word per package
        apt-get download -qq -o APT::Sandbox::User=root $wanted
}
if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    echo "Unpacking chromium-headless-shell into $CLIENTS/chromium" >&2
    if (download 2>/dev/null) ||
        { [[ $(id -u) == 0 ]] && apt-get update -qq && (download); }; then
        for package in "$folder"/*.deb; do
            dpkg-deb --extract "$package" "$folder"
            rm "$package"
        done
        libraries=$(find "$folder/usr/lib" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
        LD_LIBRARY_PATH=$libraries "$shell" --no-sandbox --version >/dev/null 2>&1 && exit 0
    fi
fi
echo "install-chromium: Chromium is missing. Put chromium or google-chrome on the path (Debian:" \
    "apt-get install chromium-headless-shell), or run this as root where apt-get reaches a mirror." \
    "Without it the tests in tests/browser are skipped; in CI and for root they fail." >&2
exit 1
