"""python -m bench arm: what stands for measurements where no board is at hand."""
