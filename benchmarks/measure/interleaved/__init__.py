"""Kernels and the library by turns on a GPU: the device's clock and heat are then the same for all."""
