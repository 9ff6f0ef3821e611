#!/usr/bin/env bash
# arm64_root.sh FOLDER: an arm64 Debian root with CPython 3.11 in FOLDER, for qemu-user. This machine's own packages are
# not touched: apt has a configuration and a state of its own. Needs apt-get and the network.
set -euo pipefail

root=${1:?usage: arm64_root.sh FOLDER}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{state/lists/partial,cache/archives/partial,debs} "$root"
touch "$work/state/status"
cat > "$work/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
Dir::State "$work/state";
Dir::State::status "$work/state/status";
Dir::Cache "$work/cache";
CONF
export APT_CONFIG="$work/apt.conf"

libraries="libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libssl3 libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1
    libncursesw6 libtinfo6 libreadline8 libdb5.3 libnsl2 libtirpc3 libcrypt1"
python="python3.11 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libpython3.11 libpython3.11-dev"

apt-get update -qq
cd "$work/debs"
# shellcheck disable=SC2086  # names, a word each
apt-get download -qq $libraries $python
for deb in *.deb; do dpkg -x "$deb" "$root"; done
