"""Pinned results, which do not expire, and files that carry results from one service to another."""
