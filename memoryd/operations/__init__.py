"""What memoryd does, in terms of all rooms below."""
