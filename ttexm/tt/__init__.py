"""Tensors in tensor-train format, and the manifold of those of one rank."""
