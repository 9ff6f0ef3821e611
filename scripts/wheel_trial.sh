#!/usr/bin/env bash
# wheel_trial.sh WHEEL...: scripts/smoke.sh with each manylinux wheel, in a Debian root of its machine and its Python, and
# under qemu where this machine is another. Debian has CPython 3.13 and 3.14, with numpy, msgspec, safetensors and rich
# for each of these machines: x86_64, aarch64, armv7l.
#
# CPU names qemu's processor (cortex-a7 and cortex-a53). SUITE names Debian's (forky). EDGEFL_ROOTS names the folder of
# the roots, which stay. Needs apt-get, the network and, for another machine, qemu-arm or qemu-aarch64, which QEMU names.
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)
roots=${EDGEFL_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/edgefl-roots}

fail() { echo "wheel_trial.sh: $*" >&2; exit 1; }

emulator() { # NAME: where the program is, also by its former name
    [ -n "${QEMU:-}" ] && echo "$QEMU" || command -v "$1" || command -v "$1-static" ||
        fail "no $1; expected the package qemu-user, or QEMU as its path"
}

starter() { # ROOT PYTHON PROGRAM WORD...: a file in the root that starts its Python, which Python starts again as itself
    local python="$1/usr/bin/edgefl-$2"
    printf '#!/bin/sh\nexec %s "%s/usr/bin/%s" "$@"\n' "${*:3}" "$1" "$2" | sed "s|ITSELF|$python|" > "$python"
    chmod +x "$python"
    echo "$python"
}

try() { # WHEEL
    local version machine root python words suite=${SUITE:-forky}
    [[ "$(basename "$1")" =~ -cp3([0-9]+)-cp3[0-9]+-manylinux.*_(x86_64|aarch64|armv7l)\.whl$ ]] ||
        fail "$1; expected a manylinux wheel for x86_64, aarch64 or armv7l"
    version=3.${BASH_REMATCH[1]} machine=${BASH_REMATCH[2]}
    root=$roots/$suite-$machine-$version
    case $machine in
        x86_64) arch=amd64 words=("$root/usr/lib64/ld-linux-x86-64.so.2" --argv0 ITSELF --library-path
            "$root/usr/lib/x86_64-linux-gnu") ;;
        aarch64) arch=arm64 words=("$(emulator qemu-aarch64)" -0 ITSELF -cpu "${CPU:-cortex-a53}" -L "$root") ;;
        armv7l) arch=armhf words=("$(emulator qemu-arm)" -0 ITSELF -cpu "${CPU:-cortex-a7}" -L "$root") ;;
    esac
    if ! [ -x "$root/usr/bin/python$version" ]; then
        "$scripts/debian_root.sh" "$root" $arch "$suite" "python$version" python3-{numpy,msgspec,safetensors,rich}
    fi
    rm -rf "$root"/usr/lib/python3/dist-packages/edgefl*
    python3 -m zipfile -e "$1" "$root/usr/lib/python3/dist-packages"
    python=$(starter "$root" "python$version" "${words[@]}")
    echo "== $(basename "$1"), $suite, ${words[0]##*/}"
    "$scripts/smoke.sh" "$python"
}

[ $# -gt 0 ] || fail "no wheel"
for wheel in "$@"; do try "$wheel"; done
