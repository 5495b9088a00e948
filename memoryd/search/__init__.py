"""See tests/test_layers.py for what may be imported here."""
