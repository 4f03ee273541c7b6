"""Measures what a service of many hosts rests on: the object store, cells, and what many workers cost a ledger."""
