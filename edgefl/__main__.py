"""`python -m edgefl` is the command line."""

import sys

from edgefl.cli.cli import main

sys.exit(main())
