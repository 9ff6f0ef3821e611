"""Files of the operating system: files that survive a crash, files under /sys and /proc, and TOML.

No file of a model (models), of a run (experiment) or of a device (deployment) is defined here.
"""
