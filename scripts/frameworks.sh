#!/bin/sh
# The tests of the adapters to other frameworks, in environments that have them: flwr needs Python 3.11 or later.
#
#     scripts/frameworks.sh DIR        # makes DIR/VERSION with the first Python that it names, if it is not there
#
# Each release of flwr that FLWR names has its environment, the newest first. A release before 1.41 is no use: its nodes
# speak gRPC, and edgefl refuses it by name.
#
# .ci/run has neither flwr nor ray; there these tests are skipped and say so.
set -eu
cd "$(dirname "$0")/.."
place=${1:?"a directory for the environment"}
for release in ${FLWR:-1.42.0 1.41.0}; do
    python="$place/$release/bin/python"
    [ -x "$python" ] || "${PYTHON:-python3}" -m venv "$place/$release"
    "$python" -m pip install -q -c constraints.txt --editable '.[test,flower,ray]' "flwr==$release"
    echo "flwr $release:"
    "$python" -m pytest -q tests/deployment/supernode tests/integrations tests/test_docs.py -rs
done
