"""Many random products, every element of each held against the reference: `make stress`."""
