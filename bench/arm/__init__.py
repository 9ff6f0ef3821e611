"""The cost of edgefl on 64-bit ARM, counted on any machine: `python -m bench arm`."""
