"""The command line: its commands, tables and plots."""
