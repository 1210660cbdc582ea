"""Pages and figures from plain data: what a report looks like, whatever it is about."""
