"""Programs that the service is compared with: the shortest realistic ones that multiply matrices over HTTP."""
