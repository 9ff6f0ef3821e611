#!/bin/sh
# The tests of the adapters to other frameworks, in an environment that has them: flwr needs Python 3.11 or later.
#
#     scripts/frameworks.sh DIR        # makes DIR with the first Python that it names, if it is not there
#
# .ci/run has neither flwr nor ray; there these tests are skipped and say so.
set -eu
cd "$(dirname "$0")/.."
place=${1:?"a directory for the environment"}
if [ ! -x "$place/bin/python" ]; then
    "${PYTHON:-python3}" -m venv "$place"
fi
"$place/bin/pip" install -q -c constraints.txt --editable '.[test,flower,ray]'
exec "$place/bin/python" -m pytest -q tests/flower tests/integrations tests/test_docs.py -rs
