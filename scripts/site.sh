#!/usr/bin/env bash
# scripts/site.sh [DIR]: builds the documentation site into DIR (build/site). A warning ends the build with an error.
# Needs: pip install -e '.[docs]'. To read the site: python -m http.server --bind 127.0.0.1 --directory build/site
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-build/site}
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT

mkdir -p "$source/bench" "$target"
cp -r docs README.md CONTRIBUTING.md CHANGELOG.md "$source"
cp bench/README.md "$source/bench"
find "$source" -name __pycache__ -prune -exec rm -r {} +
"${PYTHON:-python3}" -m sphinx -W --keep-going -q -c docs -d "$source/.doctrees" "$source" "$target"
echo "site: $target/index.html"
