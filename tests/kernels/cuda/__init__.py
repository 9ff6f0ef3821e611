"""Tests of the CUDA backend, on a stand-in for the driver that emulates its kernels on the host, or on a device."""
