#!/usr/bin/env bash
# cuda_device.sh PART: what the CUDA backend is to show on a machine with an NVIDIA GPU, in parts of at most 10 minutes.
#
#     tests       the suites that run on a stand-in elsewhere, on the device; all built-in models track float64
#     sanitizer   compute-sanitizer over every operation, where the machine has it and allows it
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
        "$python" -m pytest -q -n 8 --dist loadfile --continue-on-collection-errors -k "cuda or device" \
            tests/kernels tests/learning
        ;;
    sanitizer)
        command -v compute-sanitizer > /dev/null || { echo "not run: no compute-sanitizer"; exit 0; }
        for tool in memcheck racecheck synccheck; do
            echo "== $tool, at most 190 s: 124 is the end of them"
            EDGEFL_CUDA_EXACT=1 timeout 190 compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 \
                "$python" -m pytest -q -x -p no:cacheprovider -k cuda \
                tests/kernels/test_operations.py tests/kernels/cuda/test_tf32.py || [ $? = 124 ]
        done
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
