"""The entries of the catalogue, by family; `kernels/catalog.py` puts them in ladder order."""
