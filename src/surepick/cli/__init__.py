"""What people touch: the command line, its tables and its plots."""
