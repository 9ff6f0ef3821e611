"""Kernels on an NVIDIA GPU (csrc/cuda), through its driver alone. Nothing is opened before backend.py is imported."""
