"""Kernels compiled ahead of need, on a machine with a GPU or without: `python -m worker.cuda.ahead`."""
