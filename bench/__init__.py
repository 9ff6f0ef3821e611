"""Measurements: native against PyTorch, in one process, interleaved. Run `python -m bench --help`."""
