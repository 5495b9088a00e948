"""memoryd: durable memory for coding agents. Importing this package loads nothing else."""
