#!/bin/sh
# A simulation, a server and two devices with the lowest versions of the dependencies that pyproject.toml allows, without
# a C++ compiler. The devices run without rich.
#
#     scripts/lowest.sh DIR        # makes DIR with the first Python that it names, if it is not there
#
# EDGEFL_KERNELS=reference is the numpy backend, which is what an install without a compiler has.
set -eu
cd "$(dirname "$0")/.."
place=${1:?"a directory for the environment"}
mkdir -p "$place"
place=$(cd "$place" && pwd)
[ -x "$place/bin/python" ] || "${PYTHON:-python3}" -m venv "$place"
# "numpy>=1.24" of the list of dependencies, as "numpy==1.24"
pins=$(sed -n '/^dependencies = \[/,/^\]/s/^ *"\([a-z]*\)>=\([0-9.]*\)".*/\1==\2/p' pyproject.toml)
echo $pins
"$place/bin/pip" install -q $pins
work=$(mktemp -d)
export PYTHONPATH="$PWD" EDGEFL_KERNELS=reference
edgefl="$place/bin/python -m edgefl"
$edgefl simulate --method fedspu --clients 2 --per-round 2 --rounds 1 --epochs 1 --model cnn --run-dir "$work/simulated"
$edgefl partition --clients 2 --model cnn --out "$work/shares"
$edgefl serve --method fedspu --clients 2 --per-round 2 --rounds 1 --epochs 1 --model cnn --run-dir "$work/run" --port 0 \
    2> "$work/server.log" &
server=$!
until port=$(sed -n 's/^.* listening on .*:\([0-9]*\)$/\1/p' "$work/server.log") && [ -n "$port" ]; do
    kill -0 $server || { cat "$work/server.log"; exit 1; }
    sleep .2
done
without_rich="import sys; sys.modules['rich'] = None; from edgefl.cli.cli import main; sys.exit(main())"
devices=
for id in 0 1; do
    "$place/bin/python" -c "$without_rich" client --server "127.0.0.1:$port" --id $id \
        --state "$work/state-$id" --data "$work/shares/device-000$id.npz" &
    devices="$devices $!"
done
for device in $devices; do wait $device; done
wait $server
$edgefl simulate --replay "$work/run"
# numbers out of the range that a message allows are refused
"$place/bin/python" - <<'PYTHON'
import msgspec
from edgefl.protocol.wire import messages
refused = 0
for body in ([4, "", -1, bytes(32), "x"], [4, "", 1 << 31, bytes(32), "x"]):
    try:
        messages.decode(1, msgspec.msgpack.encode(body))
    except msgspec.ValidationError:
        refused += 1
assert refused == 2, f"{refused} of 2 client ids out of range are refused"
PYTHON
rm -r "$work"
echo "the lowest versions run: $pins"
