"""`python -m edgefl` is the command line."""

import sys

from edgefl.commands.cli import main

sys.exit(main())
