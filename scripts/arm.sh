#!/usr/bin/env bash
# arm.sh prepare | peers | python CPU ARGUMENT... | tests [CPU...] | federation | smoke: edgefl for aarch64, tried here.
#
# prepare     what the others need, made once: an arm64 root, aarch64 wheels, the two libraries by zig
# peers       torch and MNN for aarch64, for python -m bench arm
# python      an aarch64 Python under qemu as that CPU, with edgefl and this checkout's tests and benches
# tests       the suites of kernels, learning and protocol on each CPU, EDGEFL_ISA scalar and neon: hours. EVERY=8: of
#             each suite another eighth for each CPU and instruction set, the first of them FIRST; FILTER: pytest's -k;
#             SUITES: which of the three
# federation  a server of one kind with devices of the other: the same model and payloads as all x86 at EDGEFL_ISA=scalar,
#             within a bound with the best tier of each
# smoke       the NEON tier's dense products alone, in a minute; says why it is skipped where a tool is missing
#
# Needs apt-get, the network, qemu-aarch64 or qemu-aarch64-static, and Python 3.11 with ziglang and pybind11 (PYTHON names
# it). EDGEFL_ARM names the folder of all that is made. Times under qemu say nothing about speed.
set -euo pipefail

checkout=$(cd "$(dirname "$0")/.." && pwd)
work=${EDGEFL_ARM:-${XDG_CACHE_HOME:-$HOME/.cache}/edgefl-arm}
PYTHON=${PYTHON:-python3}
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static || true)
cpus=(cortex-a53 cortex-a72 cortex-a76 max)
packages=(numpy msgspec safetensors rich pytest hypothesis cffi)

fail() { echo "arm.sh: $*" >&2; exit 1; }

prepare() {
    [ -n "$qemu" ] || fail "no qemu-aarch64; expected the package qemu-user or qemu-user-static"
    mkdir -p "$work"
    [ -x "$work/root/usr/bin/python3.11" ] || "$checkout/scripts/debian_root.sh" "$work/root" arm64 bookworm python3.11 libpython3.11-dev \
        libstdc++6
    [ -d "$work/site" ] || wheels "$work/site" "${packages[@]}"
    build
    copy
}

oracle() { # torch as the tests' reference: what is later than 2.5 dies of an illegal instruction on cortex-a53 and a72
    wheels "$work/oracle" --no-deps torch==2.5.1 sympy==1.13.1 mpmath==1.3.0 networkx jinja2 markupsafe filelock fsspec \
        typing_extensions
}

wheels() { # FOLDER REQUIREMENT...: aarch64 wheels, unpacked
    "$PYTHON" -m pip install -q --target "$1.partial" --python-version 3.11 --implementation cp --only-binary :all: \
        --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 "${@:2}"
    mv "$1.partial" "$1"
}

peers() { # torch's last wheel for aarch64 without CUDA, and MNN: numpy is in the other folder
    wheels "$work/peers" --no-deps torch==2.10.0 MNN==3.6.0 sympy mpmath networkx jinja2 markupsafe filelock fsspec \
        typing_extensions
}

build() {
    "$PYTHON" -c 'import ziglang, pybind11' || fail "$PYTHON has no ziglang or pybind11; expected both of their wheels"
    local pybind11
    pybind11=$("$PYTHON" -c 'import pybind11; print(pybind11.get_include())')
    (cd "$checkout" && CXX="$PYTHON -m ziglang c++ -target aarch64-linux-gnu.2.17 -mcpu=baseline" \
        CXXFLAGS="-Wno-for-loop-analysis" "$PYTHON" csrc/native_build.py --objects build/arm --out build/arm_out \
        --suffix .cpython-311-aarch64-linux-gnu.so --include "$pybind11" --include "$work/root/usr/include/python3.11" \
        --include "$work/root/usr/include")
}

copy() { # the checkout with the libraries of aarch64 in place of this machine's
    rm -rf "$work/tree" && mkdir -p "$work/tree"
    git -C "$checkout" ls-files -z --cached --others --exclude-standard --deduplicate |
        tar -C "$checkout" --null --ignore-failed-read -T - -c | tar -C "$work/tree" -x
    cp "$checkout"/build/arm_out/*.so "$work/tree/edgefl/"
}

run() { # CPU ARGUMENT... A file in the root starts this Python as this CPU: what Python starts as itself is it again
    local python="$work/root/usr/bin/python-$1" made
    made=$(mktemp "$python.XXXX")
    cat > "$made" <<-END
	#!/bin/sh
	exec "$qemu" -0 "$python" -cpu "$1" -L "$work/root" "$work/root/usr/bin/python3.11" "\$@"
	END
    chmod +x "$made" && mv "$made" "$python"
    env PYTHONSAFEPATH=1 PYTHONPATH="$work/tree:$work/site${MORE:+:$MORE}" "$python" "${@:2}"
}

suite() { # CPU ISA NAME SHARE: pytest's exit status, but 0 where the share has no tests
    local status=0
    echo "== tests/$3 on $1, EDGEFL_ISA=$2, share $4"
    (cd "$work/tree" && MORE=$work/oracle EDGEFL_ISA=$2 run "$1" -m pytest -q -p no:cacheprovider --share "$4" \
        --ignore tests/kernels/cuda ${FILTER:+-k "$FILTER"} "tests/$3") || status=$?
    [ $status = 0 ] || [ $status = 5 ]
}

tests() {
    local failed=0 share=${FIRST:-0} every=${EVERY:-1}
    for cpu in "$@"; do
        for isa in scalar neon; do
            for name in ${SUITES:-kernels learning protocol}; do
                suite "$cpu" $isa "$name" "$((share % every))/$every" || failed=1
            done
            share=$((share + 1))
        done
    done
    return $failed
}

edgefl() { # x86|aarch64 ARGUMENT...
    if [ "$1" = x86 ]; then PYTHONPATH=$checkout "$PYTHON" -m edgefl "${@:2}"
    else run "${CPU:-cortex-a72}" -m edgefl "${@:2}"; fi
}

served() { # FOLDER SERVER DEVICES: two rounds with two devices, each server or devices x86 or aarch64
    local folder=$1 pids=()
    mkdir -p "$folder"
    edgefl x86 partition --clients 2 --out "$folder/data" > "$folder/deal.log"
    edgefl "$2" serve --method fedspu --clients 2 --rounds 2 --epochs 1 --keep .5,1 --port "$port" --linger 60 \
        --deadline none --evaluation-deadline none --run-dir "$folder/run" > "$folder/server.log" 2>&1 & pids+=($!)
    for id in 0 1; do
        edgefl "$3" client --server "127.0.0.1:$port" --state "$folder/device-$id" --id $id --give-up 120 \
            --data "$folder/data/device-000$id.npz" > "$folder/device-$id.log" 2>&1 & pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || { tail -n 3 "$folder"/*.log; fail "server $2, devices $3: ended with an error"; }
    done
    port=$((port + 1))
}

federation() { # the models after each round, the devices' own and their payloads, against a run that is all x86
    local place kinds compare=("$PYTHON" "$checkout/scripts/compare_runs.py")
    place=$(mktemp -d)
    port=${PORT:-17227}
    EDGEFL_ISA=scalar served "$place/x86-x86" x86 x86
    for kinds in "aarch64 x86" "x86 aarch64"; do
        # shellcheck disable=SC2086  # two words
        EDGEFL_ISA=scalar served "$place/${kinds/ /-}" $kinds
        "${compare[@]}" exact "$place/x86-x86" "$place/${kinds/ /-}"
    done
    served "$place/best-x86-x86" x86 x86
    for kinds in "aarch64 x86" "x86 aarch64"; do
        # shellcheck disable=SC2086
        served "$place/best-${kinds/ /-}" $kinds
        "${compare[@]}" bound "$place/best-x86-x86" "$place/best-${kinds/ /-}"
    done
    rm -rf "$place"
}

smoke() { # needs qemu and a cross compiler only
    local program compiler=(aarch64-linux-gnu-g++)
    [ -n "$qemu" ] || { echo "arm smoke skipped: no qemu-aarch64 (package qemu-user or qemu-user-static)"; return; }
    if ! command -v "${compiler[0]}" > /dev/null; then
        "$PYTHON" -c 'import ziglang' 2> /dev/null ||
            { echo "arm smoke skipped: no aarch64-linux-gnu-g++, and $PYTHON has no ziglang"; return; }
        compiler=("$PYTHON" -m ziglang c++ -target aarch64-linux-musl -mcpu=baseline)
    fi
    program=$(mktemp)
    (cd "$checkout" && "$PYTHON" csrc/generate.py build/generated && "${compiler[@]}" -Ibuild/generated -std=c++2a -O1 -w -ffp-contract=off -fno-math-errno -static -pthread \
        -o "$program" tests/kernels/linear_on_arm.cc csrc/isa/neon_{linear,products}.cc csrc/core/{cores,scratch,split,threads}.cc)
    for cpu in "${cpus[@]}"; do "$qemu" -cpu "$cpu" "$program" || fail "smoke failed on $cpu"; done
    rm -f "$program"
}

main() {
    local what=${1:-help}
    shift || true
    case $what in
        prepare) prepare ;;
        peers) prepare; [ -d "$work/peers" ] || peers ;;
        python) [ $# -ge 1 ] || fail "python without a CPU; expected one of ${cpus[*]}"; run "$@" ;;
        tests) prepare; [ -d "$work/oracle" ] || oracle; [ $# -gt 0 ] || set -- "${cpus[@]}"; tests "$@" ;;
        federation) prepare; federation ;;
        smoke) smoke ;;
        *) sed -n '2,17s/^# \{0,1\}//p' "$0"; [ "$what" = help ] ;;
    esac
}

main "$@"
