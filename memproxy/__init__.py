"""memproxy: the stdio end of memoryd. Importing this package loads nothing else."""
