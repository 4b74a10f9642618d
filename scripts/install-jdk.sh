#!/usr/bin/env bash
# Get a JDK for the tests of Java's own HTTP client.
#
# usage: CLIENTS=.clients scripts/install-jdk.sh
#
# A JDK on the path is used as it is. Otherwise Debian's packages are unpacked into CLIENTS/jdk:
# nothing is installed. Exits with 1 where neither is possible; the tests then say what they lack.
set -euo pipefail

: "${CLIENTS:?}"
source "${BASH_SOURCE%/*}/debian-packages.sh"

if command -v java >/dev/null && command -v javac >/dev/null; then
    exit 0
fi
folder=$PWD/$CLIENTS/jdk
packages() { # compiler and runtime, also where only one of them is installed
    apt-cache depends --recurse --important default-jdk-headless |
        grep -E '^openjdk-[0-9]+-(jdk|jre)-headless$' | sort -u
}
relink() { # the packages link to their files in /etc, which are in the folder
    find "$folder" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
        ln -sfn "$folder$(readlink "$link")" "$link"
    done
}
echo "Unpacking a JDK into $CLIENTS/jdk" >&2
if unpack_packages "$folder" packages && relink; then
    "$folder"/usr/lib/jvm/java-*-openjdk-*/bin/javac -version >/dev/null 2>&1 && exit 0
fi
echo "install-jdk: java and javac are missing. Put them on the path (Debian and Ubuntu: apt-get" \
    "install default-jdk-headless), or run this as root where apt-get reaches a mirror." \
    "Without them the tests of Java's HTTP client are skipped; in CI and for root they fail." >&2
exit 1
