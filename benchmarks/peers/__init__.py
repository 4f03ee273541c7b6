"""What the service is measured beside: the shortest honest programs that multiply matrices over HTTP."""
