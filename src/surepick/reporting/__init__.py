"""Pages and figures of results, plans and experiments."""
