"""The same kernels for a GPU."""
