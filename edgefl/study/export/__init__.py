"""Trained models taken out: where a run or a device has one, and the files that other programs read."""
