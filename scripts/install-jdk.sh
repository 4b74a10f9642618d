#!/usr/bin/env bash
# Get a JDK for the tests of Java's own HTTP client.
#
# usage: CLIENTS=.clients scripts/install-jdk.sh
#
# A JDK on the path is used as it is. Otherwise Debian's packages are unpacked into CLIENTS/jdk:
# nothing is installed. Exits with 1 where neither is possible; the tests then say what they lack.
set -euo pipefail

: "${CLIENTS:?}"

if command -v java >/dev/null && command -v javac >/dev/null; then
    exit 0
fi
folder=$PWD/$CLIENTS/jdk
packages() { # those of the JDK that apt would install
    apt-get install --simulate --no-install-recommends default-jdk-headless |
        awk '$1 == "Inst" && $2 ~ /openjdk/ { print $2 }'
}
download() { # needs the lists of packages, but no root
    local wanted
    wanted=$(packages)
    rm -rf "$folder" && mkdir -p "$folder" && cd "$folder" &&
        # shellcheck disable=SC2086  # one word per package
        apt-get download -qq -o APT::Sandbox::User=root $wanted
}
relink() { # the packages link to their files in /etc, which are in the folder
    find "$folder" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
        ln -sfn "$folder$(readlink "$link")" "$link"
    done
}
if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    echo "Unpacking a JDK into $CLIENTS/jdk" >&2
    if (download 2>/dev/null) ||
        { [[ $(id -u) == 0 ]] && apt-get update -qq && (download); }; then
        for package in "$folder"/*.deb; do
            dpkg-deb --extract "$package" "$folder"
            rm "$package"
        done
        relink
        "$folder"/usr/lib/jvm/java-*-openjdk-*/bin/javac -version >/dev/null 2>&1 && exit 0
    fi
fi
echo "install-jdk: java and javac are missing. Put them on the path (Debian and Ubuntu: apt-get" \
    "install default-jdk-headless), or run this as root where apt-get reaches a mirror." \
    "Without them the tests of Java's HTTP client are skipped; in CI and for root they fail." >&2
exit 1
