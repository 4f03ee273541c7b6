"""Kinds of kernels beside those of one device and type: complex products, and libraries that start from the host."""
