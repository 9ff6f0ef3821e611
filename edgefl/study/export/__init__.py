"""Export of trained models: the model of a run or of a device, and files that other programs read."""
