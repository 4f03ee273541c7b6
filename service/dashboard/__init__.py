"""The dashboard: pages for people, out of the same functions that answer the API."""
