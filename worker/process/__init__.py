import os

# Read as numpy is loaded. OpenBLAS's threads spin for some 25 ms after each product, and so take cores from the API and
# Redis. 2¹⁴ cycles are a few microseconds.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "14")
