"""edgefl: personalised federated learning on devices. Importing this package loads no kernels and no torch."""

__version__ = "0.1.0"
