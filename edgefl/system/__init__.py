"""Files of the operating system: files that survive a crash, files under /sys and /proc, and TOML.

Formats of files are defined elsewhere: files of a model in models, of a run in experiment, of a device in deployment.
"""
