"""Faults of many kinds in products, and products without one, for the check of products: `make prove`."""
