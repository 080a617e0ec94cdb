"""Who owns which field: server-side apply and managedFields."""
