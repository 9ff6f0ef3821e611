"""What edgefl costs on 64-bit ARM, counted on any machine: `python -m bench arm`."""
