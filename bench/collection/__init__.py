"""The collection of models that people bring to edgefl, and what happens to each of them.

The architectures come from torchvision, timm and transformers, and from modules here that are written after published
architectures. Every model has random weights and few pixels, so that a check takes seconds. `catalog.py` lists them.
"""
