"""What makes an object valid: structural schemas, metadata, formats; with the words of a real API server."""
