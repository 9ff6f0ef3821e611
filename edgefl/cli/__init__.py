"""The commands of `edgefl`. Each command is a file with add_arguments(parser) and run(options), and commands.py lists
them.
"""
