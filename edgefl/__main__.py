"""`python -m edgefl` and the program `edgefl`: the command line. Ctrl-C while modules are imported is one line, too."""

import sys


def main() -> int:
    """Runs the command line."""
    try:
        from edgefl.cli.cli import main as command_line

        return command_line()
    except KeyboardInterrupt:
        print("edgefl: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
