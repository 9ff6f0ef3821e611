"""What is run: an experiment's settings, presets and run file, and the federation of clients that they stand for."""
