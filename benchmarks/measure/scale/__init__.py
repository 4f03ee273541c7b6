"""Measures the parts that let a service use many hosts: the object store, cells, and the cost of many workers for a
ledger.
"""
