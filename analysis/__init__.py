"""Pure functions on recorded results: curves, dips, roofline, breakdown, comparison. No device, no network."""
