"""What is known about the stored bytes: SQLite views of the records, and the soft state beside them."""
