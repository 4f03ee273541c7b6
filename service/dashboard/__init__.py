"""The dashboard: HTML pages, built from the same functions that answer the API."""
