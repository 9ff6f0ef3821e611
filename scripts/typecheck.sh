#!/usr/bin/env bash
# Type-checks the package as it is installed: edgefl/ with server/ inside it as edgefl.server, and strictly a user's file
# over the public names (tests/typing/front_door.py). Options go to mypy.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cp -r "$root/edgefl" "$tree/edgefl"
rm -rf "$tree/edgefl/server" # the stubs of an editable install
cp -r "$root/server" "$tree/edgefl/server"
cd "$tree"
cp "$root/tests/typing/front_door.py" "$tree/front_door.py"
mypy --config-file "$root/pyproject.toml" --cache-dir "$root/.mypy_cache" "$@"
