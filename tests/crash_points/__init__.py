"""Losses of power at points of a recorded run: what POSIX lets a disk lose is lost, and both sides start again."""
