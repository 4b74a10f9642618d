# shellcheck shell=bash
# Unpack packages of Debian or Ubuntu into a folder: nothing is installed. To be sourced.

# unpack_packages FOLDER COMMAND…: the packages that the command prints. Needs apt's lists of
# packages, which are fetched for root; fails where that is not possible.
unpack_packages() {
    local folder=$1 package
    shift
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    (_download "$folder" "$@" 2>/dev/null) ||
        { [[ $(id -u) == 0 ]] && apt-get update -qq && (_download "$folder" "$@"); } ||
        return 1
    for package in "$folder"/*.deb; do
        dpkg-deb --extract "$package" "$folder" && rm "$package" || return 1
    done
}

_download() {
    local folder=$1 wanted
    wanted=$("${@:2}") && [[ -n $wanted ]] &&
        rm -rf "$folder" && mkdir -p "$folder" && cd "$folder" &&
        # shellcheck disable=SC2086  # one word per package
        apt-get download -qq -o APT::Sandbox::User=root $wanted
}
