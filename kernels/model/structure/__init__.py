"""Products of a structure: one triangle of a symmetric one, rows in groups, elements in pairs."""
