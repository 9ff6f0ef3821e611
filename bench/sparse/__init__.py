"""`python -m bench sparse`: masked layers beside dense ones, ours of two days, PyTorch's, and SparseProp's kernels."""
