import os

# Read when numpy is loaded. By default OpenBLAS's threads spin for some 25 ms after each product, which takes cores
# from the API and Redis. 2¹⁴ cycles are a few microseconds.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "14")
