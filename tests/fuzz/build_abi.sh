#!/bin/sh
# Builds the libFuzzer harness of the C ABI with AddressSanitizer and UndefinedBehaviorSanitizer: build_abi.sh FILE
# The library's sources are compiled with it, so that the sanitizers see inside. CXX is a clang++ with libFuzzer.
set -e
here=$(dirname "$0")
sources=$here/../../csrc
objects=$(mktemp -d)
python3 "$sources/generate.py" "$objects/generated"
trap 'rm -rf "$objects"' EXIT
# Bodies are compiled once for every tier; optimised under the sanitizers that takes a quarter of an hour.
flags="-std=c++20 -g1 -pthread -ffp-contract=off -fno-math-errno -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined -I$objects/generated -I$sources"
for source in "$sources"/api/*.cc "$objects"/generated/api_*.cc "$sources"/core/*.cc "$sources"/isa/*.cc "$here/abi.cc"; do
    case $source in */isa/*) effort=-O0 ;; *) effort=-O1 ;; esac
    "${CXX:-clang++}" $flags $effort -c "$source" -o "$objects/$(basename "$source" .cc)-$(basename "$(dirname "$source")").o"
done
"${CXX:-clang++}" -pthread -fsanitize=address,undefined,fuzzer "$objects"/*.o -o "$1"
