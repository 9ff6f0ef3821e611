"""Tests of the kernels, and the cases they share with bench/."""
