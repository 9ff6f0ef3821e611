"""LeNet5's training step beside other trainers, a process each: `python -m bench peers`."""
