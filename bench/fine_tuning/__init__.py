"""The fine-tuning tutorial of docs/fine-tuning.md: parts of a pretrained network, trained in a federation, and what
each part costs. `python -m bench fine-tuning` runs it.
"""
