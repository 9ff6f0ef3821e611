#!/usr/bin/env bash
# cuda_device.sh PART: what the CUDA backend is to show on a machine with an NVIDIA GPU, in parts of at most 10 minutes.
#
#     tests       the suites that run on a stand-in elsewhere, on the device; all built-in models track float64
#     sanitizer   compute-sanitizer's four tools over every kernel, where the machine has it and allows it
#     times I/N   every N-th case of `python -m bench cuda`: 1/2 and 2/2 fit into two parts
#
# Needs an installed edgefl with the tests' packages, nvcc, and for times a torch with CUDA. Without a device it says so
# and measures nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

part=${1:?"tests, sanitizer or times"} python=${PYTHON:-python3}
if ! nvidia-smi > /dev/null 2>&1; then
    echo "not run: no device"
    exit 0
fi
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1) || true
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1 || true
git log -1 --format='commit %h' 2> /dev/null || true
image=edgefl/kernels/cuda/kernels.fatbin.xz target=${capability/./}
[[ $target =~ ^[0-9]+$ ]] || target=  # some boards do not say: PTX, which the driver compiles
sources=(csrc/cuda edgefl/kernels/cuda edgefl/kernels/table.py)
if [ ! -f "$image" ] || [ -n "$(find "${sources[@]}" '(' -name '*.cu*' -o -name '*.py' ')' -newer "$image")" ]; then
    "$python" scripts/cuda.py --targets "$target"
elif [ -n "$target" ] && command -v nvcc > /dev/null && ! grep -qs ",$target," "${image%/*}/kernels.csv"; then
    "$python" scripts/cuda.py --targets "$target"  # of PTX alone, each test's process would compile all kernels
fi
export EDGEFL_LIBCUDA=libcuda.so.1

case "$part" in
    tests)
        of_emulation=(test_ptx.py test_watch.py test_barriers.py test_standin.py test_image.py)
        "$python" -m pytest -q --nightly -n "$(nproc)" --dist worksteal --continue-on-collection-errors \
            -k "cuda or device" "${of_emulation[@]/#/--ignore=tests/kernels/cuda/}" \
            --ignore=tests/kernels/test_new_operation.py tests/kernels tests/learning
        ;;
    sanitizer)
        command -v compute-sanitizer > /dev/null || { echo "not run: no compute-sanitizer"; exit 0; }
        # without xdist, whose workers compute-sanitizer does not see: every process has a share of the tests
        logs=$(mktemp -d) shares=$(($(nproc) / 4 + 1))
        for tool in memcheck racecheck initcheck synccheck; do
            for ((share = 0; share < shares; share++)); do
                EDGEFL_CUDA_CASES=kernels EDGEFL_CUDA_EXACT=1 timeout 540 \
                    compute-sanitizer --tool "$tool" --log-file "$logs/$tool.$share.said" "$python" -m pytest -q \
                    --nightly --share "$share/$shares" -p no:xdist -p no:cacheprovider -k cuda \
                    tests/kernels/test_operations.py tests/kernels/cuda/test_tf32.py tests/kernels/cuda/test_sparse.py \
                    > "$logs/$tool.$share.tests" 2>&1 &
            done
        done
        wait
        for each in "$logs"/*.tests; do
            echo "$(basename "$each" .tests): $(tail -1 "$each"), $(grep SUMMARY "${each%.tests}.said" || echo not finished)"
        done
        ! grep -hE "Invalid|Error|hazard|Uninitialized" "$logs"/*.said
        ;;
    times)
        # not `-m bench`, which imports what other benches need
        "$python" -c 'import sys; from bench.cuda import main; sys.exit(main(sys.argv[1:]))' --part "${2:-1/1}"
        ;;
    *)
        echo "$part; expected tests, sanitizer or times" >&2
        exit 2
        ;;
esac
