"""The commands of `edgefl`, one file each: add_arguments(parser) and run(options). cli.py names them."""
