"""Kernels on an NVIDIA GPU (csrc/cuda), through its driver alone. No device is opened before backend.py is imported."""
