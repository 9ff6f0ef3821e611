#!/usr/bin/env bash
# scripts/smoke.sh [PYTHON]: a simulation of three rounds, and a run between a server and two devices over loopback, by
# the edgefl that PYTHON (python3) has installed with its native kernels. Nothing of the checkout is imported.
set -euo pipefail
python=$(command -v "${1:-python3}")
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$work"' EXIT
cd "$work"
unset PYTHONPATH
edgefl() { "$python" -m edgefl "$@"; }

edgefl --version
edgefl doctor | tee doctor.log
grep -q '^kernels *native' doctor.log
edgefl simulate --rounds 3
edgefl partition --clients 2 --out shares > shares.log
: > server.log # which the loop reads before the server may have opened it
edgefl serve --clients 2 --per-round 2 --rounds 2 --run-dir run --port 0 2> server.log &
server=$!
for _ in $(seq 600); do # two minutes, which an emulator may need
    port=$(sed -n 's/^.* listening on .*:\([0-9]*\)$/\1/p' server.log)
    [ -z "$port" ] || break
    kill -0 $server || { cat server.log; exit 1; }
    sleep .2
done
for id in 0 1; do
    edgefl client --server "127.0.0.1:${port:?$(cat server.log)}" --id $id --state state-$id \
        --data shares/device-000$id.npz &
done
for job in $(jobs -p); do wait "$job"; done
edgefl simulate --replay run
