"""Kernels and the library measured alternately on a GPU, so that clock and temperature are the same for all."""
