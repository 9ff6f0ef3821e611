"""The sub-commands of `edgefl`, one file each; cli.py has the table of them and turns their errors into exit codes."""
