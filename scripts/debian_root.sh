#!/usr/bin/env bash
# debian_root.sh FOLDER ARCH SUITE PACKAGE...: these packages and all that they depend on, of a Debian suite for ARCH
# (arm64, armhf, amd64), unpacked into FOLDER for qemu-user or this machine. This machine's own packages are not touched:
# apt has a configuration and a state of its own. No package is configured. Needs apt-get and the network.
set -euo pipefail

usage="usage: debian_root.sh FOLDER ARCH SUITE PACKAGE..."
root=${1:?$usage} arch=${2:?$usage} suite=${3:?$usage}
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{state/lists/partial,cache/archives/partial,etc/{apt.conf.d,preferences.d,sources.list.d}}
touch "$work/state/status"
cat > "$work/etc/sources.list.d/debian.sources" <<END
Types: deb
URIs: http://deb.debian.org/debian
Suites: $suite
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
# The user is root's own, who alone may read the folder. A mirror may be older than the date up to which its lists hold.
cat > "$work/apt.conf" <<END
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Sandbox::User "root";
Acquire::Check-Valid-Until "false";
Debug::NoLocking "true";
Dir::Etc "$work/etc";
Dir::State "$work/state";
Dir::State::status "$work/state/status";
Dir::Cache "$work/cache";
END
export APT_CONFIG="$work/apt.conf"

apt-get update -qq
apt-get install -qq --yes --no-install-recommends --download-only "$@" > "$work/log" || { cat "$work/log"; exit 1; }
for folder in bin lib lib64; do # what older suites have beside usr, they have in it, too
    mkdir -p "$root/usr/$folder"
    ln -sfn "usr/$folder" "$root/$folder"
done
for deb in "$work"/cache/archives/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink; done
for found in "$root"/usr/lib/*/{blas/libblas,lapack/liblapack}.so.3; do # Debian's alternatives, which nothing sets here
    [ ! -e "$found" ] || ln -sfr "$found" "$(dirname "$found")/.."
done
