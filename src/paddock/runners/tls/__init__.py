"""TLS between the operator and dispatch: certificates that we make, renew and explain."""
