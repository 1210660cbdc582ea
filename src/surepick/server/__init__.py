"""The server: studies over HTTP, for browsers, robots and other machines.

Reading order: `app` (settings, limits, errors), `studies` (studies that are kept open, and how many results become one
commit), `tokens` (who may do what), `schemas` and `api` (the JSON interface), `pages` (the dashboard).
"""
