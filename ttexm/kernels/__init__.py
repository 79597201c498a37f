"""Kernels: arrays in, arrays out; no classes, no validation. `cpu` is what other layers call."""
