#!/usr/bin/env bash
# scripts/smoke.sh [PYTHON]: a simulation of three rounds, and a run between a server and one device over loopback, by the
# edgefl that PYTHON (python3) has installed. Nothing of the checkout is imported.
set -euo pipefail
python=$(command -v "${1:-python3}")
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$work"' EXIT
cd "$work"
unset PYTHONPATH
edgefl() { "$python" -m edgefl "$@"; }

edgefl --version
edgefl simulate --rounds 3
edgefl partition --clients 1 --out shares > shares.log
edgefl serve --clients 1 --per-round 1 --rounds 2 --run-dir run --port 0 2> server.log &
server=$!
for _ in $(seq 300); do
    port=$(sed -n 's/^.* listening on .*:\([0-9]*\)$/\1/p' server.log)
    [ -z "$port" ] || break
    kill -0 $server || { cat server.log; exit 1; }
    sleep .2
done
edgefl client --server "127.0.0.1:${port:?$(cat server.log)}" --id 0 --state state --data shares/device-0000.npz
wait $server
edgefl simulate --replay run
